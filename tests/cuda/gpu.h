#pragma once
#include <gtest/gtest.h>

#include "bytetape/cuda/precision.h"
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

/// Whether f32 may be rounded to TF32, while this lives; then not, as at start.
struct AllowTf32 {
  explicit AllowTf32(bool on) { cuda::set_allow_tf32(on); }
  ~AllowTf32() { cuda::set_allow_tf32(false); }
  AllowTf32(const AllowTf32&) = delete;
  AllowTf32& operator=(const AllowTf32&) = delete;
};

}  // namespace bytetape::test
