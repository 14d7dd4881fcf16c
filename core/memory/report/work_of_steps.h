#pragma once
#include <cstdint>
#include <vector>

#include "bytetape/core/memory/times.h"

namespace bytetape::memory {

/// A piece of device work, and its part of the time in which the device was busy.
struct WorkShare {
  const DeviceWork* work;
  std::uint64_t time;  ///< nanoseconds in which no work of the same step ran that began before
};

/// Returns for each step its device work, in the order of their begins. `steps` are in the order of theirs. Work
/// belongs to the step of its device and number. If several have the number, it belongs to the last one that had begun
/// when the work began.
std::vector<std::vector<WorkShare>> work_of_steps(const Log& log, const std::vector<StepTime>& steps);

}  // namespace bytetape::memory
