// Trains an MLP or a convolution network on MNIST and says where the memory went.
#include <bytetape/bytetape.h>
#include <bytetape/core/write_file.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "examples/mnist/models.h"
#include "examples/mnist/training.h"

namespace {

using namespace bytetape;
using examples::TrainingResult;

struct Options : examples::TrainingOptions {
  std::string model = "cnn", data, device = "cpu", memory_report, json;
  int threads = 0;
};

/// The training and the test split: of real MNIST where it is found, else drawn.
std::pair<data::Mnist, data::Mnist> load(const Options& o) {
  const auto given = o.data.empty() ? std::nullopt : std::optional<std::filesystem::path>(o.data);
  if (const auto dir = data::find_mnist(given))
    return {data::load_mnist(*dir, data::Split::train), data::load_mnist(*dir, data::Split::test)};
  std::string folders;
  for (const auto& folder : data::mnist_folders()) folders += (folders.empty() ? "" : ", ") + folder.string();
  fmt::print("MNIST's four files are not in {}: training on generated digits instead\n", folders);
  return {data::generated_digits(60000, 1), data::generated_digits(10000, 2)};
}

/// On the default device.
data::ResidentImages resident(const data::Mnist& split) { return {split.images, split.labels, data::mnist_normalize}; }

/// Two steps on the meta device: no data is touched, and the books say what a real run would hold.
void predict(nn::Module& model, const Options& o) {
  const Device device = default_device();
  examples::TrainingStep step(model, o);
  for (int i = 0; i < 2; ++i) {
    const memory::Step mark(device);
    const Tensor x = empty({o.batch_size, 1, 28, 28}, DType::f32, device, memory::Role::input);
    const Tensor y = empty({o.batch_size}, DType::i64, device, memory::Role::input);
    step(x, y);
  }
}

/// "2 threads", "NVIDIA H100 80GB HBM3".
std::string workers(Device device) {
  return device.type == DeviceType::cuda ? cuda::get_device_name(device.index)
                                         : fmt::format("{} threads", num_threads());
}

void print_results(const Options& o, const std::string& dataset, const TrainingResult& r) {
  const Device device = default_device();
  const auto row = [](const char* name, const std::string& value) { fmt::print("  {:<18} {}\n", name, value); };
  fmt::print("\n");
  row("dataset", dataset);
  row("model", o.model);
  row("test accuracy",
      fmt::format("{:.2f} % after {} epoch{}", 100 * r.test_accuracy, r.epochs, r.epochs == 1 ? "" : "s"));
  row("training time", fmt::format("{:.2f} s, {:.0f} images/s, {}", r.train_seconds, r.images_per_s, workers(device)));
  row("first to last step", fmt::format("{:.2f} s, with the tests between epochs", r.first_to_last_seconds));
  fmt::print("\n{}", memory::summarize(memory::allocator(device).snapshot()));
}

constexpr const char* json_name = "the results";

/// What was not measured, on meta, is null.
void write_json(const Options& o, const std::string& dataset, const std::optional<TrainingResult>& measured) {
  const memory::Statistics s = memory::allocator(Device::parse(o.device)).statistics();
  const auto number = [&](double TrainingResult::*field) {
    return measured ? nlohmann::json(*measured.*field) : nullptr;
  };
  const nlohmann::ordered_json out{{"example", "mnist"},
                                   {"model", o.model},
                                   {"dataset", dataset},
                                   {"device", o.device},
                                   {"threads", num_threads()},
                                   {"seed", o.seed},
                                   {"epochs", measured ? measured->epochs : o.epochs},
                                   {"test_accuracy", number(&TrainingResult::test_accuracy)},
                                   {"train_seconds", number(&TrainingResult::train_seconds)},
                                   {"images_per_s", number(&TrainingResult::images_per_s)},
                                   {"peak_allocated", s.allocated.peak},
                                   {"peak_reserved", s.reserved.peak}};
  write_file(o.json, json_name, [&](std::ostream& file) { file << out.dump(2) << '\n'; });
}

int run(const Options& o) {
  const Device device = Device::parse(o.device);
  memory::allocator(device);  // an unknown backend is said before anything is done
  if (o.threads) set_num_threads(o.threads);
  if (!o.json.empty()) check_writable(o.json, json_name);
  if (!o.memory_report.empty()) check_writable(o.memory_report, "the memory timeline");
  auto splits = device.is_meta ? std::nullopt : std::optional(load(o));
  manual_seed(o.seed);
  const DefaultDevice here(device);
  if (device.type == DeviceType::cuda) cuda::set_allow_tf32(true);
  nn::Sequential model = o.model == "mlp" ? examples::mnist_mlp() : examples::mnist_cnn();
  fmt::print("{}\n", nn::summary(model));

  if (device.is_meta) {
    predict(model, o);
    fmt::print("predicted, without touching data, for batches of {}:\n\n{}", o.batch_size,
               memory::summarize(memory::allocator(device).snapshot()));
    if (!o.json.empty()) write_json(o, "none", std::nullopt);
  } else {
    const auto& [training, testing] = *splits;
    const std::string name = training.name;
    fmt::print("{}: {} training and {} test images\n\n", name, training.images.size(0), testing.images.size(0));
    const data::ResidentImages training_set = resident(training), test_set = resident(testing);
    splits.reset();  // a GPU has its own
    const TrainingResult result = examples::train(model, training_set, test_set, o);
    print_results(o, name, result);
    if (!o.json.empty()) write_json(o, name, result);
  }
  if (!o.memory_report.empty()) {
    memory::write_timeline(memory::allocator(device).snapshot(), o.memory_report);
    fmt::print("\nmemory timeline: {}\n", o.memory_report);
  }
  return 0;
}

/// CLI11 reads -1 as an unsigned number, and takes NaN to be in any range.
template <class T>
CLI::Validator finite_from_0() {
  const auto fault = [](const std::string& text) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool fits = error == std::errc() && stop == end && std::isfinite(static_cast<double>(value)) && value >= 0;
    return fits ? "" : "Number less than 0, or none: " + text;
  };
  return {fault, "NONNEGATIVE"};
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  Options o;
  CLI::App app{"Trains on MNIST and says where the memory went.", "mnist"};
  app.option_defaults()->always_capture_default();
  app.add_option("--model", o.model, "network to train")->check(CLI::IsMember({"cnn", "mlp"}));
  app.add_option(
      "--data", o.data,
      "folder with the four MNIST files; default: $BYTETAPE_DATA, ~/.cache/bytetape/mnist, else generated digits");
  app.add_option("--epochs", o.epochs, "passes over the training images")->check(CLI::PositiveNumber);
  app.add_option("--batch-size", o.batch_size, "images a step")->check(CLI::PositiveNumber);
  app.add_option("--lr", o.lr, "Adam's first learning rate; falls linearly to 0")->check(finite_from_0<double>());
  app.add_option("--device", o.device,
                 "cpu, cuda, or meta (of the CPU) or meta:cuda to predict the memory without training");
  app.add_flag("--amp", o.amp, "mixed precision: compute in bf16 where torch.autocast does");
  app.add_flag("--graph", o.graph, "on a GPU, record a training step once, as a CUDA graph, and replay it");
  app.add_option("--until", o.until, "stop after the epoch that reaches this test accuracy, in %")
      ->check(finite_from_0<double>());
  app.add_option("--threads", o.threads, "CPU threads; 0: all")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", o.seed, "of weights, dropout and shuffling")->check(finite_from_0<std::uint64_t>());
  app.add_option("--memory-report", o.memory_report, "write the memory timeline (JSON) to this file");
  app.add_option("--json", o.json, "write the results (JSON) to this file");
  try {
    app.parse(argc, argv);
    return run(o);
  } catch (const CLI::ParseError& e) { return app.exit(e) == 0 ? 0 : 2; } catch (const std::exception& e) {
    std::cerr << "mnist: " << e.what() << '\n';
    return 1;
  }
}
