#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "bytetape/core/device/device.h"

namespace bytetape {

class KernelTable;
struct Interop;
namespace memory {
class Allocator;
class DeviceTimer;
class PinnedMemory;
}  // namespace memory

/// An address and its device.
template <class Pointer>
struct Place {
  Pointer data;
  Device device;
};

/// Recorded work of a device, which can be launched many times (a CUDA graph).
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual void replay() = 0;
};

/// A device type's kernels, allocators and functions.
struct Backend {
  const KernelTable* kernels = nullptr;
  /// Returns the allocator of device number `index`.
  /// Throws DeviceError, with the reason, if there is no such device.
  memory::Allocator& (*allocator)(int index) = nullptr;
  /// Returns the allocator of the meta device that stands for device number `index`.
  memory::Allocator& (*meta_allocator)(int index) = nullptr;
  /// Copies bytes between the host and a device of the type, or between two such devices, in the order of the thread's
  /// stream. When it returns, the host may use `to` and overwrite `from`. Exception: pinned memory is read until the
  /// device has passed a mark made now. A copy to a device whose work this thread records is recorded, and must be from
  /// pinned memory. Null if the device uses host memory.
  void (*transfer)(Place<const void*> from, Place<void*> to, std::size_t bytes) = nullptr;
  /// Copies bytes of device number `index` to memory that is pinned for it, in the order of the thread's stream. They
  /// have arrived once the device has passed a mark made now. Recorded like other work. Null if there is no pinned
  /// memory.
  void (*to_pinned)(int index, const void* from, void* to, std::size_t bytes) = nullptr;
  /// Waits for all work of device number `index`. Null if kernels finish before they return.
  void (*synchronize)(int index) = nullptr;
  /// Records the work that `work` launches on device number `index` from this thread, without running it. Null if the
  /// device does not support it.
  std::unique_ptr<DeviceGraph> (*record)(int index, const std::function<void()>& work) = nullptr;
  /// Returns the number of faults of device number `index` thrown so far (core/device/fault.h). Optimizer steps may
  /// have been skipped before each. Null if kernels throw at once.
  std::uint64_t (*faults_thrown)(int index) = nullptr;
  /// Makes later work of stream `to` of device number `index` wait for earlier work of stream `from`. Null if kernels
  /// finish before they return.
  void (*order)(int index, int from, int to) noexcept = nullptr;
  /// Makes later work of stream `to` wait until the device has passed `mark`. Null if there are no marks.
  void (*wait_mark)(int index, std::uint64_t mark, int to) noexcept = nullptr;
  /// Makes the host wait until the device has passed `mark`. Null if there are no marks.
  void (*wait_host)(int index, std::uint64_t mark) noexcept = nullptr;
  /// How other libraries share the devices (core/device/interop.h). Null if kernels finish before they return.
  const Interop* interop = nullptr;
  /// Returns the host memory pinned for device number `index`. `meta_pinned` is the same for its meta device. Null if
  /// pinned memory has no use.
  memory::PinnedMemory& (*pinned)(int index) = nullptr;
  memory::PinnedMemory& (*meta_pinned)(int index) = nullptr;
  /// Returns a mark: a nonzero number that the device passes once it has done the earlier work of the thread's stream.
  /// Later marks are higher. Null if there is no pinned memory.
  std::uint64_t (*mark)(int index) = nullptr;
  /// Returns a mark of a copy in the work that this thread records on device number `index` (see `record`). Elsewhere,
  /// a stream that waits for it waits for the stream for copies, and the host does not wait. Null if copies are not
  /// recorded.
  std::uint64_t (*recorded_mark)(int index) = nullptr;
  /// Returns what times the work of all devices of the type (core/memory/recording/device_timer.h).
  /// Throws DeviceError, with the reason, if there is no such device, or if the driver's profiling library is missing.
  /// Null if kernels finish before they return.
  memory::DeviceTimer& (*device_timer)() = nullptr;
  /// Whether products of f32 may round their factors to TF32. Null if they never do.
  bool (*rounds_to_tf32)() = nullptr;
};

/// Replaces the backend of a device type. A null table restores the built-in one. No tensor of the type may exist.
void register_backend(DeviceType type, const Backend& backend);
/// Returns the backend of a device. It exists even without such a device, and its allocator then throws.
const Backend& backend(Device device);

/// Waits until the device has done all its work (torch.cuda.synchronize). Throws the fault that a kernel found, if any.
void synchronize(Device device);

namespace detail {
/// The only symbol of cuda/ that core uses, resolved at link time.
const Backend& cuda_backend();
}  // namespace detail

namespace memory {
/// Returns the allocator of all memory on `device`.
/// Throws DeviceError if there is no such device.
Allocator& allocator(Device device);
/// Returns the host memory pinned for `device`, or null if there is none.
PinnedMemory* pinned_for(Device device);
}  // namespace memory

}  // namespace bytetape
