#include "bytetape/core/device/default_device.h"

#include <utility>

#include "bytetape/core/ambient.h"

namespace bytetape {

using detail::core_ambient;

Device default_device() { return core_ambient.default_device; }
DefaultDevice::DefaultDevice(Device device) : previous_(std::exchange(core_ambient.default_device, device)) {}
DefaultDevice::~DefaultDevice() { core_ambient.default_device = previous_; }

}  // namespace bytetape
