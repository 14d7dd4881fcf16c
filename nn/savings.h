#pragma once
#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bytetape/core/memory/predict.h"
#include "bytetape/nn/fit.h"

namespace bytetape::nn {

/// What one memory option alone would change in the steps of a program.
struct Saving {
  std::string memory_option;     ///< "Recompute", "SaveOnCpu", "StepInBackward"
  MemoryOptions memory_options;  ///< it alone
  std::size_t peak = 0;          ///< bytes allocated at most, as the program is
  std::size_t peak_then = 0;     ///< with the memory option
  std::size_t pinned = 0;        ///< bytes of the host that it takes on top
  /// "Recompute: peak -311 MiB (-23 %)", "SaveOnCpu: peak -1.20 GiB (-71 %), +1.22 GiB of pinned memory of the host".
  std::string text() const;
};

}  // namespace bytetape::nn

namespace bytetape::detail {
std::vector<nn::Saving> savings(const nn::FitOptions& options,
                                const std::function<memory::Prediction(const nn::MemoryOptions&)>& predict);
}  // namespace bytetape::detail

namespace bytetape::nn {

/// What each memory option would save beside those that the program has: it is predicted as it is, and with each of
/// `Recompute`, `StepInBackward` and `SaveOnCpu` (of all that it takes) alone, as fit() does; those that lower its peak
/// by 1 % or more, the lowest peak first. Which checkpoints would, memory::advise() tells of a recording.
///
///     const auto training = [](const nn::MemoryOptions& memory_options) { return Training(memory_options); };
///     for (const nn::Saving& s : nn::savings(Device::cuda(), training))
///       std::cout << s.text() << '\n';
///
/// Of `options`, `offload` says whether SaveOnCpu is tried, which a captured step cannot have. A memory option that fn
/// does not follow saves nothing. Throws ValueError where `supposed` names a recording, and what memory::predict()
/// throws.
template <std::invocable<const MemoryOptions&> F>
std::vector<Saving> savings(Device device, F&& fn, const FitOptions& options = {},
                            const memory::PredictOptions& supposed = {}) {
  check<ValueError>(supposed.recording.empty(), "savings: a recording is of one prediction");
  return bytetape::detail::savings(options, [&](const MemoryOptions& memory_options) {
    return memory::predict(
        device, [&] { return fn(memory_options); }, supposed);
  });
}

}  // namespace bytetape::nn
