#include "examples/predicted.h"
#include "bytetape/core/memory/allocator.h"

#include <bytetape/core/memory/format.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

namespace bytetape::examples {
namespace {

// After `settled_by` steps the memory of steps repeats, with a period that divides `turns`.
constexpr std::int64_t settled_by = 6, turns = 12;

/// The steps of an epoch that are predicted: all, or only the last few, after which memory is as after all of them.
enum class Epoch : bool { whole, last_steps };

std::int64_t steps_taken(std::int64_t steps, Epoch of) {
  if (of == Epoch::whole || steps <= settled_by + turns) return steps;
  return settled_by + 1 + (steps - settled_by - 1) % turns;
}

/// Allocates what main() allocates for an example, in the same order, on the default device, which is a meta device.
/// Then does what Training::run() does, step by step: epochs, each followed by a test.
class PredictedTraining {
 public:
  PredictedTraining(const Example& example, const Options& o, const ExampleCounts& counts, Epoch of = Epoch::last_steps)
      : splits_(Splits{"", example.data.allocate(counts.training), example.data.allocate(counts.testing)}),
        model_(example.make_model(o)),
        recipe_(example.make_recipe(*model_, o)),
        training_(example.data.make_resident(splits_->training)),
        testing_(example.data.make_resident(splits_->testing)) {
    splits_.reset();
    o.memory_options.apply(*model_);
    run_.emplace(Task{example.name, *model_, example.objective, recipe_, *training_, *testing_, example.data.unit},
                 endless(o));
    first_ = run_->steps() - steps_taken(run_->steps(), of);
  }

  /// Takes a step. Once steps repeat, also takes the rest of the epoch.
  void operator()() {
    do take_step();
    while (at_ && batch_ - first_ > settled_by);
  }

 private:
  /// Sets a huge number of epochs, because schedules have no rate after the last one, which few large batches soon
  /// pass.
  static TrainingOptions endless(TrainingOptions o) {
    o.epochs = std::numeric_limits<int>::max();
    return o;
  }

  void take_step() {
    if (!at_) {
      run_->loader().set_position(epoch_, batch_ = first_);
      at_.emplace(run_->loader().begin());
    }
    run_->take_step((*at_)->x, (*at_)->y);
    ++batch_;
    ++*at_;
    if (*at_ != run_->loader().end()) return;
    at_.reset();
    ++epoch_;
    run_->test();
  }

  std::int64_t epoch_ = 0, batch_ = 0;  // position of training
  std::int64_t first_ = 0;              // first step that is taken in each epoch
  std::optional<Splits> splits_;
  std::unique_ptr<nn::Module> model_;
  Recipe recipe_;
  std::unique_ptr<data::ResidentDataset> training_, testing_;
  std::optional<Training> run_;
  std::optional<data::ResidentLoader::Iterator> at_;
};

// Predict up to the test, and until steps repeat after it. Epochs of few steps repeat with a period.
// The addresses of a GPT's tensors repeat every 28 steps.
const memory::PredictOptions behind_test{.min_steps = settled_by + 1 + 3, .max_steps = 10 * (settled_by + 1)};

// An epoch with at most this many events is predicted step by step, which takes some tenths of a second.
constexpr std::size_t most_events = std::size_t{1} << 17;

/// Returns Epoch::whole if the whole epoch's log is short enough. `few` is the prediction with the last steps only.
Epoch epoch_to_predict(const memory::Prediction& few, const Options& o, const ExampleCounts& counts) {
  if (!few.is_settled()) return Epoch::last_steps;
  const memory::PredictedStep& step = few.steps.back();
  const auto steps = static_cast<std::size_t>(counts.training / (o.batch_size * o.accumulated * dist::init().size()));
  return steps * (step.end_event - step.first_event) <= most_events ? Epoch::whole : Epoch::last_steps;
}

/// Returns a function that makes training with the options and additional memory options.
auto training_with(const Example& example, const Options& o, const ExampleCounts& counts) {
  return [&example, o, counts](const nn::MemoryOptions& memory_options) {
    Options with = o;
    with.memory_options = o.memory_options.with(memory_options);
    return PredictedTraining(example, with, counts);
  };
}

/// Returns the bytes of the device that the allocator can use. On a GPU, the context, libraries and other processes
/// use the rest.
std::size_t room_of(const memory::Allocator& a) {
  const std::optional<memory::Outside> outside = a.device().type == DeviceType::cpu ? std::nullopt : a.outside();
  return a.capacity() - std::min(a.capacity(), outside ? outside->bytes + a.external().bytes : 0);
}

}  // namespace

memory::Prediction predict(const Example& example, const Options& o, const ExampleCounts& counts) {
  const Device device = Device::parse(o.device);
  memory::PredictOptions options = behind_test;
  if (o.memory_limit) options.limit = o.memory_limit;
  const auto predicted = [&](Epoch of) {
    return memory::predict(
        device, [&] { return PredictedTraining(example, o, counts, of); }, options);
  };
  const Epoch of = epoch_to_predict(predicted(Epoch::last_steps), o, counts);
  options.recording = o.recorded_to();
  options.program = example.name + ", predicted";
  return predicted(of);
}

nn::Fit fit(const Example& example, const Options& o, const ExampleCounts& counts) {
  return nn::fit(Device::parse(o.device), o.memory_limit, training_with(example, o, counts), {}, behind_test);
}

/// The switch of the examples that sets a memory option.
std::string switch_of(const nn::MemoryOptions& memory_options) {
  if (memory_options.recompute) return "--recompute";
  return memory_options.step_in_backward ? "--step-in-backward" : "--save-on-cpu";
}

std::string against_limit(const nn::Saving& s, std::size_t limit) {
  if (!limit || s.peak < limit) return "";
  return fmt::format("; {} the limit of {}", s.peak_then <= limit ? "within" : "still above",
                     memory::format_bytes(limit));
}

std::vector<nn::Saving> savings(const Example& example, const Options& o, const ExampleCounts& counts) {
  auto all = nn::savings(Device::parse(o.device), training_with(example, o, counts), {}, behind_test);
  if (o.accumulated > 1 || dist::init().size() > 1)
    std::erase_if(all, [](const nn::Saving& s) { return s.memory_options.step_in_backward; });
  return all;
}

std::string advice_text(const nn::Saving& s, const Options& o) {
  return s.text() + against_limit(s, o.memory_limit) + '\n' + switch_of(s.memory_options);
}

std::string largest_batch(const Example& example, const Options& o, const ExampleCounts& counts) {
  const auto training = [&](std::int64_t n) {
    Options of_n = o;
    of_n.batch_size = n;
    return PredictedTraining(example, of_n, counts);
  };
  const Device device = Device::parse(o.device);
  const std::size_t room = o.memory_limit ? o.memory_limit : room_of(memory::allocator(device));
  const std::int64_t most = counts.training / (o.accumulated * dist::init().size());
  const memory::Largest found = memory::largest(device, room, 1, most, training, behind_test);
  const std::string limit = memory::format_bytes(room),
                    in_step = o.accumulated > 1 ? fmt::format(", {} of them in a step,", o.accumulated) : "";
  if (found.n == most) return fmt::format("any --batch-size{} fits into {}", in_step, limit);
  if (found.n) return fmt::format("--batch-size {}{} is the largest that fits into {}", *found.n, in_step, limit);
  const std::string text = found.prediction.out_of_memory->what();  // "out of memory on meta: 4.00 MiB ...\n..."
  const std::size_t begin = text.find(": ") + 2;
  return fmt::format("not even --batch-size 1 fits into {}: {}", limit, text.substr(begin, text.find('\n') - begin));
}

}  // namespace bytetape::examples
