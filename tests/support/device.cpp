#include "tests/support/device.h"

#include "bytetape/core/device/backend.h"

namespace bytetape::test {

bool is_available(Device device) {
  try {
    memory::allocator(device);
    return true;
  } catch (const DeviceError&) {  // not in this build, or not in this machine
    return false;
  }
}

}  // namespace bytetape::test
