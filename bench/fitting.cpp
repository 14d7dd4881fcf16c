// Trains a deep residual network under a limit of a fraction of the memory that it needs, with the options of nn::fit,
// and without a limit. Prints a JSON line for each kind of options.
#include <bytetape/bytetape.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/harness.h"
#include "examples/cifar10/resnet.h"

namespace {

using namespace bytetape;

struct Settings {
  Device device;
  std::int64_t batch = 128, blocks = 9;
  int steps = 5, rounds = 3;
  double times = 2.5;
  bool is_captured = false;
};

/// The network of He et al. for CIFAR-10 with 6 * blocks + 2 layers. With 9 blocks per stage it is ResNet-56.
nn::Sequential deep_resnet(std::int64_t blocks) {
  nn::Sequential net;
  net.push_back("conv1", nn::Conv2d(3, 16, 3, {.padding = 1, .bias = false}));
  net.push_back("bn1", nn::BatchNorm2d(16)).push_back("relu", nn::ReLU());
  std::int64_t in = 16;
  for (const std::int64_t out : {16, 32, 64})
    for (std::int64_t i = 0; i < blocks; ++i) {
      net.push_back(examples::BasicBlock(in, out, in == out ? 1 : 2));
      in = out;
    }
  net.push_back("pool", examples::GlobalAveragePool()).push_back("fc", nn::Linear(64, 10));
  return net;
}

class Training {
 public:
  Training(const Settings& s, const nn::MemoryOptions& memory_options)
      : batch_(s.batch),
        is_captured_(s.is_captured),
        memory_options_(memory_options),
        net_(deep_resnet(s.blocks)),
        captured_([this](const Tensor& x, const Tensor& y) { return step(x, y); }) {
    memory_options.apply(net_);
  }
  Tensor operator()() {
    const memory::Step mark;
    const Tensor x = randn({batch_, 3, 32, 32}, DType::f32, default_device(), default_generator(), memory::Role::input);
    const Tensor y = randint(0, 10, batch_, DType::i64, default_device(), default_generator(), memory::Role::input);
    return is_captured_ ? captured_(x, y) : step(x, y);
  }

 private:
  Tensor step(const Tensor& x, const Tensor& y) {
    sgd_.zero_grad();
    Tensor loss;
    {
      const SaveOnCpu offload(memory_options_.saved);
      loss = cross_entropy(net_(x), y);
    }
    loss.backward();
    sgd_.step();
    return loss.detach();
  }

  std::int64_t batch_;
  bool is_captured_;
  nn::MemoryOptions memory_options_;
  nn::Sequential net_;
  optim::SGD sgd_{net_.parameters(), {.lr = 0.1, .momentum = 0.9}};
  CapturedStep<std::function<Tensor(const Tensor&, const Tensor&)>> captured_;
};

struct Run {
  std::vector<float> losses;  // losses of the first steps, from one seed
  double ms = 0;              // mean time of the later steps
  std::size_t allocated = 0, reserved = 0;
};

Run train(const Settings& s, std::size_t limit, const nn::MemoryOptions& memory_options) {
  memory::empty_cache(s.device);
  memory::set_limit(limit, s.device);
  memory::reset_peaks(s.device);
  Run run;
  {
    const DefaultDevice here(s.device);
    manual_seed(1);
    Training training(s, memory_options);
    for (int i = 0; i < 4; ++i) run.losses.push_back(training().item<float>());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < s.steps; ++i) training();
    synchronize(s.device);
    run.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / s.steps;
  }
  run.allocated = memory::stats(s.device).allocated.peak;
  run.reserved = memory::stats(s.device).reserved.peak;
  memory::empty_cache(s.device);
  memory::set_limit(memory::snapshot(s.device).capacity, s.device);
  return run;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// The bytes that the last predicted step copies to the host.
std::size_t copied_to_host(const memory::Prediction& p) {
  std::size_t bytes = 0;
  for (std::size_t i = p.steps.back().first_event; i < p.steps.back().end_event; ++i)
    if (const memory::Event& e = p.snapshot.events[i]; e.kind == memory::EventKind::to_host) bytes += e.bytes;
  return bytes;
}

/// Times training with and without the limit, in turns, and prints a JSON line.
void compare(const Settings& s, const char* way, const nn::FitOptions& options) {
  const auto training = [&](const nn::MemoryOptions& memory_options) { return Training(s, memory_options); };
  const std::size_t need = memory::predict(s.device, [&] { return Training(s, nn::MemoryOptions()); }).peak_allocated();
  const auto limit = static_cast<std::size_t>(static_cast<double>(need) / s.times);
  const nn::Fit fit = nn::fit(s.device, limit, training, options);
  nlohmann::ordered_json line{{"way", way},
                              {"device", to_string(s.device)},
                              {"captured", s.is_captured},
                              {"need_bytes", need},
                              {"limit_bytes", limit},
                              {"fits", fit.fits()},
                              {"to_host_bytes", copied_to_host(fit.with)},
                              {"text", fit.text()}};
  if (fit.fits()) {
    std::vector<double> without, with, ratios;
    Run plain, fitted;
    for (int i = 0; i < s.rounds; ++i) {
      plain = train(s, memory::snapshot(s.device).capacity, {});
      fitted = train(s, limit, fit.memory_options);
      without.push_back(plain.ms), with.push_back(fitted.ms), ratios.push_back(fitted.ms / plain.ms);
    }
    line.update({{"losses_equal", plain.losses == fitted.losses},
                 {"reserved_bytes", fitted.reserved},
                 {"as_predicted", fitted.reserved == fit.with.peak_reserved()},
                 {"ms_without", median(without)},
                 {"ms_with", median(with)},
                 {"ratio", median(ratios)}});
  }
  std::cout << line.dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{
      "Trains a ResNet-56 in less memory than it needs, and without a limit; prints a JSON line for each way."};
  Settings s;
  std::string device = "cpu";
  int threads = 0;
  app.add_option("--device", device, "cpu or cuda")->capture_default_str();
  app.add_option("--batch-size", s.batch, "images per step")->capture_default_str();
  app.add_option("--blocks", s.blocks, "blocks of two layers in each of the three stages")->capture_default_str();
  app.add_option("--times", s.times, "memory that the network needs, as a multiple of the limit")
      ->capture_default_str();
  app.add_option("--steps", s.steps, "steps that are timed in a row")->capture_default_str();
  app.add_option("--rounds", s.rounds, "rounds with and without the limit, of which the median counts")
      ->capture_default_str();
  app.add_flag("--captured", s.is_captured, "on a GPU, capture the step as a CUDA graph, and replay it");
  app.add_option("--threads", threads, "CPU threads; default: all");
  CLI11_PARSE(app, argc, argv);
  return bench::run("fitting", [&] {
    if (threads) set_num_threads(threads);
    s.device = Device::parse(device);
    compare(s, "recomputation", {.offload = false});
    compare(s, "checkpoints", {.recompute = false, .offload = false});
    if (s.device.type != DeviceType::cpu) compare(s, "host", {.checkpoint = false, .recompute = false});
  });
}
