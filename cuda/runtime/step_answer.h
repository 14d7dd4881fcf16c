#pragma once
// The decision whether a step is skipped, the same for all launches of the step. Launches read a word that only work of
// their stream changes (cuda/runtime/fault.h). Other threads may add work to that stream between two launches, so the
// first launch stores what it read for the others. Clipping stores its answer for the next step of its thread.
#include <cstdint>
#include <mutex>
#include <optional>

#include "bytetape/core/device/device.h"

namespace bytetape::cuda {

/// The part of the decision that a launch gets as an argument.
struct StepAnswer {
  const unsigned* from;     // the step is skipped if this is not 0,
  const unsigned* clipped;  // or if this is not null and not 0
  unsigned* keep;           // where to store the answer for later launches; or null

#ifdef __CUDACC__
  /// Returns a value other than 0 if the step is skipped. Usually this is one load, which is not waited for until the
  /// value is used.
  __device__ unsigned skips() const {
    unsigned answer = *static_cast<const volatile unsigned*>(from);
    if (clipped) answer |= *static_cast<const volatile unsigned*>(clipped);
    return answer;
  }
  /// Stores the answer for later launches. Every block calls this late with the result of skips(), because the first
  /// block waits for its load here.
  __device__ void leave(unsigned skips) const {
    if (keep && blockIdx.x == 0 && threadIdx.x == 0) *keep = skips;
  }
#endif
};

/// The launches of one step, or of one pass over its gradients, on the thread's stream. No fault is forgotten while the
/// object exists.
class StepLaunches {
 public:
  enum class Kind { clipping, step, other };
  /// `faults_seen`: the number of thrown faults when the host counted the step. The step is skipped if more were thrown
  /// since. Default: the host does not count it.
  StepLaunches(Device device, Kind kind, std::optional<std::uint64_t> faults_seen = {});
  /// Returns the argument of the next launch.
  StepAnswer next();

 private:
  std::unique_lock<std::mutex> lock_;
  Device device_;
  Kind kind_;
  StepAnswer first_;
  bool is_first_ = true;
};

}  // namespace bytetape::cuda
