#pragma once
#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bytetape/core/memory/predict.h"
#include "bytetape/nn/fit.h"

namespace bytetape::nn {

/// The predicted effect of a single memory option on a program.
struct Saving {
  std::string memory_option;     ///< "Recompute", "SaveOnCpu", "StepInBackward"
  MemoryOptions memory_options;  ///< only that option
  std::size_t peak = 0;          ///< peak of allocated bytes without the option
  std::size_t peak_then = 0;     ///< peak of allocated bytes with the option
  std::size_t pinned = 0;        ///< additional bytes of pinned host memory
  /// Describes the saving: "Recompute: peak 1.35 GiB → 1.05 GiB (-23 %)", "SaveOnCpu: peak 1.69 GiB → 502 MiB (-71 %),
  /// +1.22 GiB of pinned memory of the host".
  std::string text() const;
};

}  // namespace bytetape::nn

namespace bytetape::detail {
std::vector<nn::Saving> savings(const nn::FitOptions& options,
                                const std::function<memory::Prediction(const nn::MemoryOptions&)>& predict);
}  // namespace bytetape::detail

namespace bytetape::nn {

/// Predicts how much each memory option would save in addition to the options that the program has.
///
/// The program is predicted as it is, and with each of `Recompute`, `StepInBackward` and `SaveOnCpu` (of all saved
/// tensors) alone. Returns the options that lower its peak by 1 % or more, the lowest peak first. memory::advise()
/// advises on checkpoints.
///
///     const auto training = [](const nn::MemoryOptions& memory_options) { return Training(memory_options); };
///     for (const nn::Saving& s : nn::savings(Device::cuda(), training))
///       std::cout << s.text() << '\n';
///
/// SaveOnCpu is tried if `options.offload` is true.
/// A memory option that fn ignores saves nothing.
///
/// Throws ValueError if `supposed` names a recording.
/// Exceptions from memory::predict() pass through.
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
