#include "bytetape/core/device/default_device.h"

#include <utility>

namespace bytetape {
namespace {
constinit thread_local Device current{};
}

Device default_device() { return current; }
DefaultDevice::DefaultDevice(Device device) : previous_(std::exchange(current, device)) {}
DefaultDevice::~DefaultDevice() { current = previous_; }

}  // namespace bytetape
