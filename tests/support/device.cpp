#include "tests/support/device.h"

#include <cstdlib>
#include <string>

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

Device own_gpu() {
  const char* const number = std::getenv("BYTETAPE_TEST_GPU");
  return Device::parse(std::string("cuda:") + (number ? number : "0"));
}

}  // namespace bytetape::test
