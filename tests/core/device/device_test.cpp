#include "bytetape/core/device/device.h"

#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(Device, IsReadAsItIsPrinted) {
  for (const Device device :
       {Device::cpu(), Device::meta(), Device::cuda(), Device::cuda(12), Device::meta(Device::cuda(3))})
    EXPECT_EQ(Device::parse(detail::concat(device)), device);
  EXPECT_EQ(Device::parse("cuda:0"), Device::cuda());
  EXPECT_EQ(Device::parse("meta:cpu"), Device::meta());
}

TEST(Device, OfNoSuchNameIsRefused) {
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda1", "cuda17", "cudax7", "cuda:99999999999",
                           "cpu:0", "meta:", "cpux"})
    EXPECT_THROWS_SAYING(Device::parse(text), DeviceError, detail::concat("unknown device '", text, "'"));
}

}  // namespace
}  // namespace bytetape
