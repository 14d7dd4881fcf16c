#pragma once
#include "bytetape/core/device.h"

namespace bytetape {

/// Where layers make their parameters on this thread. The CPU at start.
Device default_device();

/// Sets default_device() for a C++ scope: with Device::meta() a model of any size is built without touching memory.
class DefaultDevice {
 public:
  explicit DefaultDevice(Device device);
  ~DefaultDevice();
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;

 private:
  Device previous_;
};

}  // namespace bytetape
