// Times how long a training loop on the CPU waits for its batches, with the networks, data and loaders of the examples.
// Prints a JSON line for each.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/harness.h"
#include "bench/training.h"
#include "examples/cifar10/models.h"

namespace {

using namespace bytetape;

struct Example {
  const char* name;
  nn::Sequential (*model)();
  std::unique_ptr<optim::Optimizer> (*optimizer)(const std::vector<Tensor>&);
  Shape image;
  std::int64_t batch;
  data::Normalize normalize;
  Augmentation augment = {};
};

const std::array<Example, 2> trained_examples{
    {{"cifar10 --model small",
      examples::small_net,
      bench::sgd,
      {3, 32, 32},
      128,
      data::cifar10_normalize,
      {.crop_padding = 2, .padding_mode = PaddingMode::reflect, .flip = 0.5}},
     {"mnist --model cnn", examples::mnist_cnn, bench::adam, {28, 28}, 64, data::mnist_normalize}}};

/// Milliseconds per step, and milliseconds per step that the loop waits.
struct Times {
  double step, wait;
};

/// Returns the times of one pass through `loader`.
template <class Loader, class F>
Times pass(Loader& loader, const F& train) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Clock::duration waited{};
  auto asked = start;
  for (const auto& [x, y] : loader) {
    waited += Clock::now() - asked;
    train(x, y);
    asked = Clock::now();
  }
  const auto ms = [&](Clock::duration d) {
    return std::chrono::duration<double, std::milli>(d).count() / static_cast<double>(loader.size());
  };
  return {ms(Clock::now() - start), ms(waited)};
}

/// Prints the median of seven passes, sorted by the share of waiting, after a warm-up pass.
template <class Loader, class F>
void measure(const Example& e, const std::string& loading, Loader&& loader, const F& train) {
  pass(loader, train);
  std::array<Times, 7> t;
  std::generate(t.begin(), t.end(), [&] { return pass(loader, train); });
  std::sort(t.begin(), t.end(), [](const Times& a, const Times& b) { return a.wait / a.step < b.wait / b.step; });
  const nlohmann::ordered_json line{{"example", e.name},    {"loading", loading},   {"threads", num_threads()},
                                    {"step_ms", t[3].step}, {"wait_ms", t[3].wait}, {"share", t[3].wait / t[3].step}};
  std::cout << line.dump() << std::endl;
}

void measure(const Example& e, std::int64_t steps) {
  Shape shape = e.image;
  shape.insert(0, steps * e.batch);
  const Tensor images = randint(0, 256, shape, DType::u8), labels = randint(0, 10, shape[0]);
  nn::Sequential net = e.model();
  const auto optimizer = e.optimizer(net.parameters());
  const auto train = [&](const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    cross_entropy(net(x), y).backward();
    optimizer->step();
  };
  const data::ResidentImages resident(images, labels, e.normalize);
  measure(e, "resident", data::ResidentLoader(resident, {.batch_size = e.batch, .shuffle = true, .augment = e.augment}),
          train);
  const data::TensorDataset set(images, labels);
  for (const int workers : {0, 1, 2})
    measure(e, std::to_string(workers) + " workers",
            data::DataLoader(set, {.batch_size = e.batch,
                                   .shuffle = true,
                                   .workers = workers,
                                   .normalize = e.normalize,
                                   .augment = e.augment}),
            train);
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{"Times how long a training loop on the CPU waits for its batches; prints a JSON line for each."};
  int threads = 0;
  std::int64_t steps = 20;
  app.add_option("--threads", threads, "CPU threads that compute; default: all");
  app.add_option("--steps", steps, "steps in a pass; seven passes are timed")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return bench::run("waiting", [&] {
    if (threads) set_num_threads(threads);
    for (const Example& e : trained_examples) measure(e, steps);
  });
}
