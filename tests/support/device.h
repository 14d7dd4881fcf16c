#pragma once
#include "bytetape/core/device/device.h"

namespace bytetape::test {

/// Whether this process can use a device.
bool is_available(Device device);

}  // namespace bytetape::test
