#include "examples/cifar10/race_report.h"

#include <bytetape/core/write_file.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "examples/outputs.h"

namespace bytetape::examples {
namespace {

/// The mean and the standard deviation of numbers. The deviation of one number is 0.
struct Spread {
  double mean = 0, deviation = 0;

  explicit Spread(const std::vector<double>& values) {
    const auto n = static_cast<double>(values.size());
    for (const double v : values) mean += v / n;
    for (const double v : values) deviation += (v - mean) * (v - mean) / std::max(1.0, n - 1);
    deviation = std::sqrt(deviation);
  }
};

std::string worker(Device device) {
  return device.type == DeviceType::cuda ? cuda::get_device_name(device.index)
                                         : fmt::format("{} thread{}", num_threads(), num_threads() == 1 ? "" : "s");
}

nlohmann::ordered_json json_of(std::uint64_t seed, const RaceResult& result) {
  nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
  for (const RaceEpoch& e : result.epochs)
    epochs.push_back({{"seconds", e.seconds}, {"test_accuracy", e.accuracy}, {"train_loss", e.loss}});
  return {{"seed", seed}, {"seconds", result.seconds}, {"test_accuracy", result.accuracy}, {"epochs", epochs}};
}

}  // namespace

void RaceReport::show(std::uint64_t seed, int epoch, const RaceEpoch& state) const {
  fmt::print("seed {}  epoch {}/{}  {:8.3f} s  loss {:.4f}  test accuracy {:6.2f} %\n", seed, epoch + 1, race_.epochs,
             state.seconds, state.loss, 100 * state.accuracy);
  std::fflush(stdout);
}

void RaceReport::add(std::uint64_t seed, const RaceResult& result) {
  runs_.push_back({seed, result});
  fmt::print("seed {}  finished   {:8.3f} s               test accuracy {:6.2f} %, of ten views\n", seed,
             result.seconds, 100 * result.accuracy);
  std::fflush(stdout);
}

void RaceReport::print() const {
  std::vector<double> seconds, accuracies, once;
  for (const Run& run : runs_) {
    seconds.push_back(run.result.seconds);
    accuracies.push_back(100 * run.result.accuracy);
    once.push_back(100 * run.result.epochs.back().accuracy);
  }
  const auto row = [](const char* name, const std::vector<double>& values, int digits, const char* unit) {
    const Spread s(values);
    fmt::print("  {:<18} {:.{}f} {} (standard deviation {:.{}f}, from {:.{}f} to {:.{}f})\n", name, s.mean, digits,
               unit, s.deviation, digits, *std::ranges::min_element(values), digits, *std::ranges::max_element(values),
               digits);
  };
  fmt::print("\n  {:<18} {}, {}\n", "runs", runs_.size(), worker(default_device()));
  row("test accuracy", accuracies, 2, "%");
  row("of one view", once, 2, "%");
  row("time", seconds, 3, "s");
  std::fflush(stdout);
}

void RaceReport::write_json(const std::string& dataset) const {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const Run& run : runs_) runs.push_back(json_of(run.seed, run.result));
  const nlohmann::ordered_json out{{"example", "cifar10 --race"},
                                   {"dataset", dataset},
                                   {"device", options_.device},
                                   {"worker", worker(default_device())},
                                   {"epochs", race_.epochs},
                                   {"batch_size", race_.batch_size},
                                   {"runs", runs}};
  write_file(options_.json, json_name, [&](std::ostream& file) { file << out.dump(2) << '\n'; });
}

}  // namespace bytetape::examples
