#pragma once
#include "bytetape/core/device/device.h"

namespace bytetape::test {

/// Whether this process can use a device.
bool is_available(Device device);
/// The GPU that tests use: cuda:0, or the one whose number is in BYTETAPE_TEST_GPU.
Device own_gpu();

}  // namespace bytetape::test
