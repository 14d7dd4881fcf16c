#pragma once
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
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
  /// Seconds of a step without and with the option, as time_savings() measured them. Default: not measured.
  std::optional<double> step_time = {}, step_time_then = {};
  /// Describes the saving: "Recompute: peak 1.35 GiB → 1.05 GiB (-23 %), +3.10 ms a step (+4 %)", "SaveOnCpu: peak
  /// 1.69 GiB → 502 MiB (-71 %), +1.22 GiB of pinned memory of the host". The time is left out if it is not known.
  /// Below 1 %, it is "less than 1 % of a step's time".
  std::string text() const;
};

/// How time_savings() measures.
struct TimingOptions {
  int rounds = 2;            ///< times that a program is built without and with each option
  int warm_up = 3;           ///< untimed steps of a program; a captured step is recorded by its third call
  int steps = 5;             ///< steps of a burst; the mean of the fastest burst of all rounds counts
  double min_seconds = 0.3;  ///< bursts of a program are repeated until they took so long
};

}  // namespace bytetape::nn

namespace bytetape::detail {
std::vector<nn::Saving> savings(const nn::FitOptions& options,
                                const std::function<memory::Prediction(const nn::MemoryOptions&)>& predict);
void time_savings(std::vector<nn::Saving>& savings, Device device, const nn::TimingOptions& options,
                  const std::function<std::function<void()>(const nn::MemoryOptions&)>& program);
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

/// Measures what each of `savings` costs: sets its `step_time` and `step_time_then`.
///
/// fn(memory_options) builds a program, and the result is called for each step, as in savings(). Steps run on `device`,
/// so fn needs real data. Only one program exists at a time. The time of a program that always runs out of memory is
/// not set. The default generator is in the same state afterwards.
///
///     std::vector<nn::Saving> all = nn::savings(Device::cuda(), training);
///     nn::time_savings(all, Device::cuda(), training);
///
/// Throws ValueError if `options` has no round, no step or a negative number.
/// Throws CaptureError in a step that is being captured.
/// Exceptions from fn and its steps pass through, except OutOfMemory.
template <std::invocable<const MemoryOptions&> F>
void time_savings(std::vector<Saving>& savings, Device device, F&& fn, const TimingOptions& options = {}) {
  bytetape::detail::time_savings(savings, device, options, [&](const MemoryOptions& memory_options) {
    using Program = std::decay_t<std::invoke_result_t<F&, const MemoryOptions&>>;
    // constructed in place, because a program need not be movable
    struct Held {
      Program program;
      Held(F& fn, const MemoryOptions& o) : program(fn(o)) {}
    };
    return std::function<void()>([held = std::make_shared<Held>(fn, memory_options)] { held->program(); });
  });
}

}  // namespace bytetape::nn
