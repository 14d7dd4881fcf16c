#pragma once
// One answer for all launches of a step: whether it is taken. They read a word that only their stream's own work
// changes (cuda/runtime/fault.h); other threads may give that stream work between them, so the first launch leaves what
// it read to the others. Clipping leaves it to the step that its thread takes next.
#include <cstdint>
#include <mutex>
#include <optional>

#include "bytetape/core/device/device.h"

namespace bytetape::cuda {

/// What a launch is given of it.
struct StepAnswer {
  const unsigned* from;     // the step is skipped where this is not 0,
  const unsigned* clipped;  // or this, where it is not null
  unsigned* keep;           // for the launches that follow; or null

#ifdef __CUDACC__
  /// Not 0 where it is. As a rule no more than a load, which nothing waits for until somebody asks.
  __device__ unsigned skips() const {
    unsigned answer = *static_cast<const volatile unsigned*>(from);
    if (clipped) answer |= *static_cast<const volatile unsigned*>(clipped);
    return answer;
  }
  /// Every block calls it, with what skips() said: late, as the first one waits for it here.
  __device__ void leave(unsigned skips) const {
    if (keep && blockIdx.x == 0 && threadIdx.x == 0) *keep = skips;
  }
#endif
};

/// The launches of one step, or of one pass over its gradients, by the thread's stream. While it lives no fault is
/// forgotten.
class StepLaunches {
 public:
  enum class Kind { clipping, step, other };
  /// `faults_seen`: how many thrown faults the host has counted the step by, where it does; after one more the step is
  /// skipped.
  StepLaunches(Device device, Kind kind, std::optional<std::uint64_t> faults_seen = {});
  /// For the next launch.
  StepAnswer next();

 private:
  std::unique_lock<std::mutex> lock_;
  Device device_;
  Kind kind_;
  StepAnswer first_;
  bool is_first_ = true;
};

}  // namespace bytetape::cuda
