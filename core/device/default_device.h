#pragma once
#include "bytetape/core/device/device.h"

namespace bytetape {

/// Returns the default device of this thread's factories, layers, loaders and memory::Step (torch.get_default_device).
/// Initially the CPU.
Device default_device();

/// Sets default_device() on this thread while it lives (torch.set_default_device). With Device::meta() you can build a
/// model of any size, and predict its training, without allocating memory.
class DefaultDevice {
 public:
  [[nodiscard]] explicit DefaultDevice(Device device);
  ~DefaultDevice();
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;

 private:
  Device previous_;
};

}  // namespace bytetape
