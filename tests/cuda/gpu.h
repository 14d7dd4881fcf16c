#pragma once
#include <gtest/gtest.h>

#include "tests/support/device.h"

namespace bytetape::test {

inline constexpr Device gpu = Device::cuda();

/// Of tests that need a GPU: skipped, each by its name, where there is none.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_available(gpu)) GTEST_SKIP() << "no CUDA device can be used";
  }
};

}  // namespace bytetape::test
