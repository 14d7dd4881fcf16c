#pragma once
#include <cstdint>
#include <vector>

#include "bytetape/core/memory/device_work.h"

namespace bytetape::memory {

/// Device work as columns, in the order of its begins.
struct ReportWork {
  explicit ReportWork(std::vector<DeviceWork> work);

  using Column = std::vector<std::uint64_t>;
  Column elapsed;  ///< nanoseconds from the begin of the previous row to the begin of this one
  Column time;     ///< nanoseconds
  Column kind, name, module, op, phase, step, step_device, device, stream, bytes;
};

}  // namespace bytetape::memory
