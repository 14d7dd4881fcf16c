#include "bytetape/cuda/runtime/workspace.h"

#include <array>
#include <atomic>

#include "bytetape/core/error.h"
#include "bytetape/cuda/cuda.h"
#include "bytetape/cuda/runtime/per_device.h"

namespace bytetape::cuda {
namespace {

constexpr std::size_t alignment = 256;  // alignment of workspaces for libraries, in bytes

/// By device number: the cap in bytes plus one, or 0 if there is no cap.
std::array<std::atomic<std::size_t>, most_devices> caps{};

}  // namespace

WorkspaceCap workspace_cap(Device device) {
  const std::size_t cap = caps[device.index].load(std::memory_order_relaxed);
  return cap ? WorkspaceCap(cap - 1) : std::nullopt;
}

void set_workspace_cap(Device device, std::optional<std::size_t> bytes) {
  check<DeviceError>(device.type == DeviceType::cuda, "set_workspace_cap: ", device, " is not a CUDA device");
  caps[device.index] = bytes ? *bytes / alignment * alignment + 1 : 0;
}

}  // namespace bytetape::cuda
