#include "bytetape/cuda/conv/bias_grad.h"
#include "bytetape/core/kernels/activation.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {
namespace {

BiasGradArgs arguments(std::int64_t rows, std::int64_t columns, DType dtype) {
  const View matrix(nullptr, dtype, Device::cuda(), {rows, columns}, {columns, 1});
  return {.gy = matrix, .gb = View(nullptr, dtype, Device::cuda(), columns, 1)};
}

// Needs no GPU.
TEST(BiasGrad, BlocksCoverTheMatrixOnce) {
  std::mt19937_64 generator(3);
  const auto size = [&](int most_bits) {
    return static_cast<std::int64_t>(generator() >> (64 - 1 - generator() % static_cast<unsigned>(most_bits)));
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (int i = 0; i < 2000; ++i) {
      const std::int64_t rows = size(24), columns = size(14);
      SCOPED_TRACE(detail::concat(rows, " x ", columns));
      const BiasGradArgs a = arguments(rows, columns, dtype);
      const BiasGradLayout r(a.gy);
      const std::int64_t block = r.across * BiasGradLayout::lanes(size_of(dtype));
      EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(r.across)) && r.across <= BiasGradLayout::warp);
      EXPECT_TRUE(r.blocks * block >= columns && (columns == 0 || (r.blocks - 1) * block < columns));
      EXPECT_TRUE(r.splits * r.chunk >= rows && (rows == 0 || (r.splits - 1) * r.chunk < rows));
      EXPECT_LE(block, BiasGradLayout::threads);
      EXPECT_LE(r.splits, 65535);  // of a grid's second dim
      EXPECT_EQ(activation_plans().bias_grad.plan(a).workspace,
                r.splits == 1 ? 0u : static_cast<std::size_t>(r.splits * columns) * sizeof(double));
    }
}

TEST(BiasGrad, FewRowsTakeOneLaunch) {
  for (const std::int64_t rows : {10, 256, 1024})
    EXPECT_EQ(activation_plans().bias_grad.plan(arguments(rows, 1024, DType::f32)).workspace, 0u);
  EXPECT_EQ(BiasGradLayout(arguments(256, 1024, DType::f32).gy).blocks, 128);
  EXPECT_GT(BiasGradLayout(arguments(64 * 24 * 24, 64, DType::f32).gy).splits, 132);
}

}  // namespace
}  // namespace bytetape::cuda
