#pragma once
#include <cstdint>

#include "bytetape/core/memory/ledger/names.h"
#include "bytetape/core/memory/ledger/role.h"

namespace bytetape::memory {

/// A kernel, a copy or a fill that a device ran. Module, op and phase are those of the host's thread that launched it,
/// or that recorded it into a graph.
struct DeviceWork {
  enum class Kind : std::uint8_t { kernel, to_device, to_host, on_device, fill };
  std::uint64_t begin = 0, end = 0;  ///< nanoseconds since the recording began
  std::uint64_t bytes = 0;           ///< of copies and fills; 0 for kernels
  std::uint32_t device = 0;          ///< index into Log::devices
  std::uint32_t stream = 0;          ///< the driver's number of the stream
  std::uint32_t step = 0;            ///< number of the step that launched it
  std::uint32_t step_device = 0;     ///< index into Log::devices of the device that numbered the step
  NameId name = 0;                   ///< of the kernel; 0 for copies and fills
  NameId module = 0, op = 0;
  Kind kind = Kind::kernel;
  Phase phase = Phase::setup;

  std::uint64_t time() const { return end - begin; }
};

inline constexpr int device_work_kinds = 5;
/// "kernel", "copy to device", "copy to host", "copy on device" or "fill".
const char* to_string(DeviceWork::Kind k);

}  // namespace bytetape::memory
