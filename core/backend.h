#pragma once
#include "bytetape/core/device.h"
#include "bytetape/core/kernels.h"
#include "bytetape/core/memory/allocator.h"

namespace bytetape {

/// What a device type brings: its kernels, and an allocator for each of its devices.
struct Backend {
  const Kernels* kernels = nullptr;
  /// The allocator of device number `index`.
  memory::Allocator& (*allocator)(int index) = nullptr;
  /// The allocator of the device's meta twin.
  memory::Allocator& (*meta_allocator)(int index) = nullptr;
};

/// Makes a device type usable; the CPU is there from the start. Call once, before the first use.
void register_backend(DeviceType type, const Backend& backend);
/// Throws DeviceError where the type was never registered.
const Backend& backend(Device device);

namespace memory {
/// The allocator that every byte on `device` comes from. Throws DeviceError where there is no such device.
Allocator& allocator(Device device);
}  // namespace memory

}  // namespace bytetape
