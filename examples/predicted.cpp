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

constexpr int steps_of_epoch = 6;  // by which they have settled, so that the test finds what it finds after many

/// What main() makes of an example, on the default device, a meta one, in that order; and its training steps, before
/// one of which is the test.
class PredictedTraining {
 public:
  PredictedTraining(const Example& example, const Options& o, const ImageCounts& images)
      : splits_(Splits{"", batch(example, images.training), batch(example, images.testing)}),
        model_(example.make_model(o)),
        recipe_(example.make_recipe(model_, o)),
        training_(splits_->training.x, splits_->training.y, example.normalize),
        testing_(splits_->testing.x, splits_->testing.y, example.normalize) {
    splits_.reset();
    o.levers.apply(model_);
    run_.emplace(Task{example.name, model_, example.objective, recipe_, training_, testing_}, endless(o));
  }

  void operator()() {
    if (taken_++ == steps_of_epoch) {
      at_.reset();
      run_->test();
    }
    if (!at_ || *at_ == run_->loader().end()) {
      at_.reset();
      at_.emplace(run_->loader().begin());
    }
    run_->take_step((*at_)->x, (*at_)->y);
    ++*at_;
  }

 private:
  /// Images as they are read, which is to the host.
  static data::Batch batch(const Example& example, std::int64_t n) {
    Shape shape = example.image;
    shape.insert(0, n);
    return {empty(shape, DType::u8, Device::meta(), memory::Role::input),
            empty(n, DType::i64, Device::meta(), memory::Role::input)};
  }

  /// Schedules give no rate behind the last epoch, where few large batches soon are.
  static TrainingOptions endless(TrainingOptions o) {
    o.epochs = std::numeric_limits<int>::max();
    return o;
  }

  int taken_ = 0;
  std::optional<Splits> splits_;
  nn::Sequential model_;
  Recipe recipe_;
  data::ResidentImages training_, testing_;
  std::optional<Training> run_;
  std::optional<data::ResidentLoader::Iterator> at_;
};

const memory::PredictOptions behind_test{.min_steps = steps_of_epoch + 3};

/// Training as the options say, with more levers.
auto training_with(const Example& example, const Options& o, const ImageCounts& images) {
  return [&example, o, images](const nn::Levers& levers) {
    Options with = o;
    with.levers = o.levers.with(levers);
    return PredictedTraining(example, with, images);
  };
}

/// A recorded step cannot wait for copies to the host.
nn::FitOptions usable_levers(const Options& o) { return {.offload = !o.graph}; }

/// What the device has for its ledger: a GPU's context, libraries and other processes have the rest.
std::size_t room_of(const memory::Allocator& a) {
  const std::optional<memory::Outside> outside = a.device().type == DeviceType::cpu ? std::nullopt : a.outside();
  return a.capacity() - std::min(a.capacity(), outside ? outside->bytes : 0);
}

}  // namespace

memory::Prediction predict(const Example& example, const Options& o, const ImageCounts& images) {
  memory::PredictOptions options = behind_test;
  options.recording = o.recorded_to();
  options.program = example.name + ", predicted";
  if (o.memory_limit) options.limit = o.memory_limit;
  return memory::predict(
      Device::parse(o.device), [&] { return PredictedTraining(example, o, images); }, options);
}

nn::Fit fit(const Example& example, const Options& o, const ImageCounts& images) {
  return nn::fit(Device::parse(o.device), o.memory_limit, training_with(example, o, images), usable_levers(o),
                 behind_test);
}

std::vector<std::string> savings(const Example& example, const Options& o, const ImageCounts& images) {
  std::vector<std::string> texts;
  const auto training = training_with(example, o, images);
  for (const nn::Saving& s : nn::savings(Device::parse(o.device), training, usable_levers(o), behind_test))
    texts.push_back(s.text());
  return texts;
}

std::string largest_batch(const Example& example, const Options& o, const ImageCounts& images) {
  const auto training = [&](std::int64_t n) {
    Options of_n = o;
    of_n.batch_size = n;
    return PredictedTraining(example, of_n, images);
  };
  const Device device = Device::parse(o.device);
  const std::size_t room = o.memory_limit ? o.memory_limit : room_of(memory::allocator(device));
  const memory::Largest found = memory::largest(device, room, 1, images.training, training, behind_test);
  const std::string limit = memory::format_bytes(room);
  if (found.n == images.training) return fmt::format("any --batch-size fits into {}", limit);
  if (found.n) return fmt::format("--batch-size {} is the largest that fits into {}", *found.n, limit);
  const std::string text = found.prediction.out_of_memory->what();  // "out of memory on meta: 4.00 MiB ...\n..."
  const std::size_t begin = text.find(": ") + 2;
  return fmt::format("not even --batch-size 1 fits into {}: {}", limit, text.substr(begin, text.find('\n') - begin));
}

}  // namespace bytetape::examples
