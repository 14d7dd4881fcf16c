#pragma once
#include <gtest/gtest.h>

#include "bytetape/cuda/cuda.h"
#include "bytetape/cuda/precision.h"
#include "tests/support/device.h"

namespace bytetape::test {

inline const Device gpu = own_gpu();

/// Another GPU of this machine than `gpu`, if it has several.
inline Device another_gpu() { return Device::cuda(gpu.index == 0 ? 1 : 0); }
#define SKIP_WITHOUT_ANOTHER_GPU() \
  if (cuda::device_count() < 2) GTEST_SKIP() << "there is one GPU"

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
