// Trains an MLP or a convolution network on MNIST and says where the memory went.
#include <bytetape/bytetape.h>
#include <bytetape/core/write_file.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "examples/mnist/models.h"
#include "examples/mnist/progress.h"

namespace {

using namespace bytetape;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model = "cnn", data, device = "cpu", memory_report, json;
  int epochs = 3, threads = 0;
  std::int64_t batch_size = 64;
  double lr = 2e-3;
  std::uint64_t seed = 0;
};

struct Result {
  double test_accuracy = 0, train_seconds = 0, images_per_s = 0;
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

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::int64_t count_correct(const Tensor& logits, const Tensor& labels) {
  const NoGrad no_grad;
  return sum(argmax(logits, 1) == labels).item<std::int64_t>();
}

double test(nn::Module& model, const data::Dataset& dataset) {
  const NoGrad no_grad;
  model.eval();
  std::int64_t correct = 0;
  for (const data::Batch& batch : data::DataLoader(dataset, {.batch_size = 100}))
    correct += count_correct(model(to(batch.x, default_device())), to(batch.y, default_device()));
  model.train();
  return static_cast<double>(correct) / static_cast<double>(dataset.size());
}

/// Adam with the learning rate falling linearly to 0 over the whole run.
Result train(nn::Module& model, const data::Dataset& training, const data::Dataset& testing, const Options& o) {
  optim::Adam adam(model.parameters(), {.lr = o.lr});
  data::DataLoader loader(training, {.batch_size = o.batch_size, .shuffle = true, .drop_last = true, .seed = o.seed});
  check<ValueError>(loader.size() > 0, "--batch-size ", o.batch_size, " is more than the ", training.size(),
                    " training images");
  const Device device = default_device();
  memory::Allocator& books = memory::allocator(device);
  const std::int64_t steps = o.epochs * loader.size();
  std::int64_t step = 0;
  Result result;
  for (int epoch = 1; epoch <= o.epochs; ++epoch) {
    examples::Progress progress(fmt::format("epoch {}/{}", epoch, o.epochs), loader.size(), stdout);
    const auto start = Clock::now();
    examples::ProgressNumbers now;
    std::int64_t seen = 0, correct = 0, batches = 0;
    double loss_sum = 0;
    for (const data::Batch& batch : loader) {
      const memory::Step mark(device);
      const Tensor images = to(batch.x, device), labels = to(batch.y, device);
      adam.set_lr(o.lr * (1 - static_cast<double>(step++) / static_cast<double>(steps)));
      adam.zero_grad();
      const Tensor logits = model(images);
      const Tensor loss = cross_entropy(logits, labels);
      loss.backward();
      adam.step();

      seen += batch.x.size(0);
      correct += count_correct(logits, labels);
      loss_sum += loss.item<double>();
      const memory::Statistics s = books.statistics();
      now = {loss_sum / static_cast<double>(++batches), static_cast<double>(correct) / static_cast<double>(seen),
             static_cast<double>(seen) / seconds_since(start), s.allocated.current, s.allocated.peak};
      progress.update(batches, now);
    }
    progress.finish(now);
    result.train_seconds += seconds_since(start);
    result.images_per_s = static_cast<double>(seen) * epoch / result.train_seconds;
    result.test_accuracy = test(model, testing);
    fmt::print("           test accuracy {:.2f} %\n", 100 * result.test_accuracy);
  }
  return result;
}

/// Two steps on the meta device: no data is touched, and the books say what a real run would hold.
void predict(nn::Module& model, const Options& o) {
  const Device device = default_device();
  optim::Adam adam(model.parameters(), {.lr = o.lr});
  for (int i = 0; i < 2; ++i) {
    const memory::Step mark(device);
    const Tensor x = empty({o.batch_size, 1, 28, 28}, DType::f32, device, memory::Role::input);
    const Tensor y = empty({o.batch_size}, DType::i64, device, memory::Role::input);
    adam.zero_grad();
    cross_entropy(model(x), y).backward();
    adam.step();
  }
}

void print_results(const Options& o, const std::string& dataset, const Result& r, const memory::Snapshot& books) {
  const auto row = [](const char* name, const std::string& value) { fmt::print("  {:<16} {}\n", name, value); };
  fmt::print("\n");
  row("dataset", dataset);
  row("model", o.model);
  row("test accuracy", fmt::format("{:.2f} %", 100 * r.test_accuracy));
  row("training time",
      fmt::format("{:.1f} s, {:.0f} images/s, {} threads", r.train_seconds, r.images_per_s, num_threads()));
  fmt::print("\n{}", memory::summarize(books));
}

constexpr const char* json_name = "the results";

/// What was not measured, on meta, is null.
void write_json(const Options& o, const std::string& dataset, const std::optional<Result>& measured) {
  const memory::Statistics s = memory::allocator(Device::parse(o.device)).statistics();
  const auto number = [&](double Result::*field) { return measured ? nlohmann::json(*measured.*field) : nullptr; };
  const nlohmann::ordered_json out{{"example", "mnist"},
                                   {"model", o.model},
                                   {"dataset", dataset},
                                   {"device", o.device},
                                   {"threads", num_threads()},
                                   {"seed", o.seed},
                                   {"epochs", o.epochs},
                                   {"test_accuracy", number(&Result::test_accuracy)},
                                   {"train_seconds", number(&Result::train_seconds)},
                                   {"images_per_s", number(&Result::images_per_s)},
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
  const auto splits = device.is_meta ? std::nullopt : std::optional(load(o));
  manual_seed(o.seed);
  const DefaultDevice here(device);
  nn::Sequential model = o.model == "mlp" ? examples::mnist_mlp() : examples::mnist_cnn();
  fmt::print("{}\n", nn::summary(model));

  if (device.is_meta) {
    predict(model, o);
    fmt::print("predicted, without touching data, for batches of {}:\n\n{}", o.batch_size,
               memory::summarize(memory::allocator(device).snapshot()));
    if (!o.json.empty()) write_json(o, "none", std::nullopt);
  } else {
    const auto& [training, testing] = *splits;
    fmt::print("{}: {} training and {} test images\n\n", training.name, training.images.size(0),
               testing.images.size(0));
    const data::TensorDataset training_set(training.images, training.labels, data::mnist_normalize);
    const data::TensorDataset test_set(testing.images, testing.labels, data::mnist_normalize);
    const Result result = train(model, training_set, test_set, o);
    print_results(o, training.name, result, memory::allocator(device).snapshot());
    if (!o.json.empty()) write_json(o, training.name, result);
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
