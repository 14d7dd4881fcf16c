#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "bytetape/core/device/device.h"

namespace bytetape {

class KernelTable;
namespace memory {
class Allocator;
class PinnedMemory;
}  // namespace memory

/// An address and where it is.
template <class Pointer>
struct Place {
  Pointer data;
  Device device;
};

/// Work of a device, recorded to be given to it again and again.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual void replay() = 0;
};

/// What a device type brings: its kernels, and an allocator for each of its devices.
struct Backend {
  const KernelTable* kernels = nullptr;
  /// The allocator of device number `index`. Throws DeviceError, and says why, where there is none.
  memory::Allocator& (*allocator)(int index) = nullptr;
  /// The allocator of the device's meta twin.
  memory::Allocator& (*meta_allocator)(int index) = nullptr;
  /// Copies bytes between the host and a device of the type, or between two of them, after the work that the thread's
  /// stream was given so far; returns once the host may use `to`, and write over `from`, but for pinned memory, which
  /// is read until the device has come past a mark made now. Null where the device's memory is the host's.
  void (*transfer)(Place<const void*> from, Place<void*> to, std::size_t bytes) = nullptr;
  /// Copies bytes of device number `index` to memory that is pinned for it, after the work that the thread's stream was
  /// given so far; they are there once the device has come past a mark made now. Null where there is no such memory.
  void (*to_pinned)(int index, const void* from, void* to, std::size_t bytes) = nullptr;
  /// Waits for all work of device number `index`. Null where work is done when a kernel returns.
  void (*synchronize)(int index) = nullptr;
  /// What `work` gives device number `index` to do on this thread, not done but recorded. Null where that cannot be.
  std::unique_ptr<DeviceGraph> (*record)(int index, const std::function<void()>& work) = nullptr;
  /// How many faults of device number `index` were thrown so far (core/device/fault.h): before each, steps of
  /// optimizers may have been skipped. Null where kernels throw at once.
  std::uint64_t (*faults_thrown)(int index) = nullptr;
  /// What stream `to` of device number `index` is given from now on waits for what `from` was given so far. Null where
  /// work is done when a kernel returns.
  void (*order)(int index, int from, int to) noexcept = nullptr;
  /// The same, until the device has come past a mark. Null where there are no marks.
  void (*wait_mark)(int index, std::uint64_t mark, int to) noexcept = nullptr;
  /// Memory of the host that is pinned for device number `index`, and what stands for it of the device's meta twin.
  /// Null where that would be of no use.
  memory::PinnedMemory& (*pinned)(int index) = nullptr;
  memory::PinnedMemory& (*meta_pinned)(int index) = nullptr;
  /// A number, not 0, for how far the thread's stream of device number `index` will have come with what it was given so
  /// far; later ones are higher. Null where there is no pinned memory, which waits for them.
  std::uint64_t (*mark)(int index) = nullptr;
};

/// Replaces what is known of a device type, or with a null table goes back to what the build brings. Call it while no
/// tensor of the type lives.
void register_backend(DeviceType type, const Backend& backend);
/// What runs a device. It may be that no such device is there: its allocator says so.
const Backend& backend(Device device);

/// Waits until all work given to the device is done (torch.cuda.synchronize). Throws what a kernel left as a fault.
void synchronize(Device device);

namespace detail {
/// The one thing that core takes from cuda/, at link time.
const Backend& cuda_backend();
}  // namespace detail

namespace memory {
/// The allocator that every byte on `device` comes from. Throws DeviceError where there is no such device.
Allocator& allocator(Device device);
/// The host's memory that is pinned for `device`; null where there is none.
PinnedMemory* pinned_for(Device device);
}  // namespace memory

}  // namespace bytetape
