// The memory that a captured step works with stays where it is.
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/autograd/capture_device.h"

namespace bytetape {
namespace {

using test::Capture;

TEST_F(Capture, WhatItUsesCannotBeEvicted) {
  for (const Device device : {gpu, Device::meta(gpu)}) {
    const Tensor weight = ones({4}, DType::f32, device), unused = ones({4}, DType::f32, device);
    auto step = capture([&](const Tensor& x) { return x * weight; });
    const Tensor x = ones({4}, DType::f32, device);
    const auto expect_no_pinned_memory = [](const Tensor& of) {
      EXPECT_THROWS_SAYING(of.storage().evict(), DeviceError, "no host memory that is pinned");
    };
    expect_no_pinned_memory(weight);
    for (int i = 0; i < 3; ++i) step(x);
    ASSERT_TRUE(step.is_captured());
    EXPECT_THROWS_SAYING(weight.storage().evict(), CaptureError, "a captured step or another library has the address");
    expect_no_pinned_memory(unused);
  }
}

}  // namespace
}  // namespace bytetape
