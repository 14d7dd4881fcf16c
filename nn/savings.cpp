#include "bytetape/nn/savings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/default_device.h"
#include "bytetape/core/memory/format.h"
#include "bytetape/core/random.h"

namespace bytetape::nn {
namespace {

/// Returns the peak of host memory that is pinned for the device.
std::size_t peak_pinned(const memory::Prediction& p) {
  std::size_t peak = 0;
  for (const memory::Snapshot& s : p.others)
    if (s.name.starts_with("pinned:")) peak += s.statistics.allocated.peak;
  return peak;
}

std::vector<Saving> candidates(const FitOptions& options) {
  std::vector<Saving> all{{.memory_option = "Recompute", .memory_options = {.recompute = true}},
                          {.memory_option = "StepInBackward", .memory_options = {.step_in_backward = true}}};
  if (options.offload) all.push_back({.memory_option = "SaveOnCpu", .memory_options = {.saved = {.keep = 0}}});
  return all;
}

/// Keeps the state of the default generator, to which it returns.
class SameRandomNumbers {
 public:
  SameRandomNumbers() = default;
  ~SameRandomNumbers() { default_generator().set_state(before_); }
  SameRandomNumbers(const SameRandomNumbers&) = delete;
  SameRandomNumbers& operator=(const SameRandomNumbers&) = delete;

 private:
  PhiloxState before_ = default_generator().state();
};

/// ", +3.10 ms a step (+4 %)".
std::string added_time(double step, double then) {
  const double added = then - step;
  if (std::abs(added) < 0.01 * step) return ", less than 1 % of a step's time";
  const char* const sign = added < 0 ? "\u2212" : "+";
  return fmt::format(", {}{} a step ({}{:.0f} %)", sign,
                     memory::format_time(static_cast<std::uint64_t>(1e9 * std::abs(added))), sign,
                     100 * std::abs(added) / step);
}

}  // namespace

std::string Saving::text() const {
  using memory::format_bytes;
  const double part = static_cast<double>(peak - peak_then) / static_cast<double>(peak);
  const std::string host = pinned ? fmt::format(", +{} of pinned memory of the host", format_bytes(pinned)) : "";
  const std::string time = step_time && step_time_then ? added_time(*step_time, *step_time_then) : "";
  return fmt::format("{}: peak {} \u2192 {} (\u2212{:.0f} %){}{}", memory_option, format_bytes(peak),
                     format_bytes(peak_then), 100 * part, host, time);
}

}  // namespace bytetape::nn

namespace bytetape::detail {

std::vector<nn::Saving> savings(const nn::FitOptions& options,
                                const std::function<memory::Prediction(const nn::MemoryOptions&)>& predict) {
  const memory::Prediction as_it_is = predict({});
  std::vector<nn::Saving> found;
  if (!as_it_is.fits()) return found;
  for (nn::Saving& s : nn::candidates(options)) {
    const memory::Prediction with = predict(s.memory_options);
    s.peak = as_it_is.peak_allocated();
    s.peak_then = with.peak_allocated();
    s.pinned = nn::peak_pinned(with) - std::min(nn::peak_pinned(with), nn::peak_pinned(as_it_is));
    if (with.fits() && s.peak_then + s.peak / 100 <= s.peak) found.push_back(std::move(s));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.peak_then < b.peak_then; });
  return found;
}

namespace {

/// Returns the mean seconds of a step in the fastest burst, or nullopt if the program runs out of memory.
std::optional<double> step_time(Device device, const nn::TimingOptions& options,
                                const std::function<std::function<void()>()>& program) {
  using Clock = std::chrono::steady_clock;
  try {
    const std::function<void()> step = program();
    for (int i = 0; i < options.warm_up; ++i) step();
    synchronize(device);
    double fastest = std::numeric_limits<double>::infinity(), all = 0;
    do {
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < options.steps; ++i) step();
      synchronize(device);
      const double burst = std::chrono::duration<double>(Clock::now() - start).count();
      fastest = std::min(fastest, burst / options.steps);
      all += burst;
    } while (all < options.min_seconds);
    return fastest;
  } catch (const OutOfMemory&) { return std::nullopt; }
}

}  // namespace

void time_savings(std::vector<nn::Saving>& savings, Device device, const nn::TimingOptions& options,
                  const std::function<std::function<void()>(const nn::MemoryOptions&)>& program) {
  refuse_in_capture("times steps");
  check<ValueError>(
      options.rounds > 0 && options.steps > 0 && options.warm_up >= 0 && options.min_seconds >= 0,
      "time_savings: expected rounds and steps above 0, and a warm_up and min_seconds of at least 0, got ",
      options.rounds, ", ", options.steps, ", ", options.warm_up, " and ", options.min_seconds);
  if (savings.empty()) return;
  const nn::SameRandomNumbers same;
  const DefaultDevice here(device);
  const auto keep_faster = [&](std::optional<double>& fastest, const nn::MemoryOptions& memory_options) {
    const auto time = step_time(device, options, [&] { return program(memory_options); });
    if (time && (!fastest || *time < *fastest)) fastest = time;
  };
  std::optional<double> as_it_is;
  for (nn::Saving& s : savings) s.step_time.reset(), s.step_time_then.reset();
  for (int round = 0; round < options.rounds; ++round) {
    keep_faster(as_it_is, {});
    for (nn::Saving& s : savings) keep_faster(s.step_time_then, s.memory_options);
  }
  for (nn::Saving& s : savings) s.step_time = as_it_is;
}

}  // namespace bytetape::detail
