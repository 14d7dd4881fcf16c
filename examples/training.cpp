#include "examples/training.h"

#include <fmt/format.h>

#include <chrono>

#include "examples/progress.h"

namespace bytetape::examples {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Tensor count_correct(const Tensor& logits, const Tensor& labels) { return sum(argmax(logits, 1) == labels); }

/// The part of the images that the model knows; the host waits for it once.
double test(nn::Module& model, const data::ResidentImages& images) {
  const NoGrad no_grad;
  model.eval();
  Tensor correct = zeros({}, DType::i64, images.device());
  for (const auto& [x, y] : data::ResidentLoader(images, {.batch_size = 100})) correct += count_correct(model(x), y);
  model.train();
  return correct.item<double>() / static_cast<double>(images.size());
}

ProgressNumbers look(const TrainingStep& step, std::int64_t steps, std::int64_t images, Clock::time_point start) {
  ProgressNumbers n;
  n.loss = step.loss() / static_cast<double>(steps);
  n.accuracy = static_cast<double>(step.correct()) / static_cast<double>(images);
  n.images_per_s = static_cast<double>(images) / seconds_since(start);  // the device has taken the steps
  const memory::Statistics books = memory::allocator(default_device()).statistics();
  n.memory = books.allocated.current;
  n.peak_memory = books.allocated.peak;
  return n;
}

}  // namespace

void TrainingStep::operator()(const Tensor& images, const Tensor& labels) {
  const Autocast autocast(computed_);
  optimizer_.zero_grad();
  const Tensor logits = model_(images), loss = cross_entropy(logits, labels);
  loss.backward();
  optimizer_.step();
  const NoGrad no_grad;
  loss_ += loss;
  correct_ += count_correct(logits, labels);
}

void TrainingStep::start_epoch() {
  fill_(loss_, 0);
  fill_(correct_, 0);
}

TrainingResult train(nn::Module& model, const Recipe& recipe, const data::ResidentImages& training,
                     const data::ResidentImages& testing, const TrainingOptions& o) {
  data::ResidentLoader loader(
      training,
      {.batch_size = o.batch_size, .shuffle = true, .drop_last = true, .seed = o.seed, .augment = recipe.augment});
  check<ValueError>(loader.size() > 0, "--batch-size ", o.batch_size, " is more than the ", training.size(),
                    " training images");
  TrainingStep step(model, *recipe.optimizer, o.amp);
  auto captured = capture([&](const Tensor& images, const Tensor& labels) { step(images, labels); });
  const std::int64_t all_steps = o.epochs * loader.size();
  std::int64_t taken = 0;
  TrainingResult result;
  const auto first = Clock::now();
  do {
    Progress progress(fmt::format("epoch {}/{}", ++result.epochs, o.epochs), loader.size(), stdout);
    const auto start = Clock::now();
    std::int64_t steps = 0;
    const auto now = [&] { return look(step, steps, steps * o.batch_size, start); };
    step.start_epoch();
    for (const auto& [images, labels] : loader) {
      const memory::Step mark;
      recipe.optimizer->set_lr(o.lr * recipe.lr(static_cast<double>(taken++) / static_cast<double>(all_steps)));
      o.graph ? captured(images, labels) : step(images, labels);
      progress.update(++steps, now);
    }
    progress.finish(now());
    result.train_seconds += seconds_since(start);
    result.first_to_last_seconds = seconds_since(first);
    result.test_accuracy = test(model, testing);
    fmt::print("           test accuracy {:.2f} %\n", 100 * result.test_accuracy);
  } while (result.epochs < o.epochs && 100 * result.test_accuracy < o.until);
  result.images_per_s = static_cast<double>(taken * o.batch_size) / result.train_seconds;
  return result;
}

}  // namespace bytetape::examples
