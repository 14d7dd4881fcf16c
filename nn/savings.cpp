#include "bytetape/nn/savings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bytetape/core/memory/format.h"

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

}  // namespace

std::string Saving::text() const {
  using memory::format_bytes;
  const double part = static_cast<double>(peak - peak_then) / static_cast<double>(peak);
  const std::string host = pinned ? fmt::format(", +{} of pinned memory of the host", format_bytes(pinned)) : "";
  return fmt::format("{}: peak {} \u2192 {} (\u2212{:.0f} %){}", memory_option, format_bytes(peak),
                     format_bytes(peak_then), 100 * part, host);
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

}  // namespace bytetape::detail
