#pragma once
#include "bytetape/core/device/device.h"

namespace bytetape {

/// Where factories, layers, loaders and memory::Step are on this thread, unless they are told
/// (torch.get_default_device). The CPU at start.
Device default_device();

/// Sets default_device() for a C++ scope (torch.set_default_device): with Device::meta() a model of any size is built,
/// and its training predicted, without touching memory.
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
