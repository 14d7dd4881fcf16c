#include "bytetape/core/view.h"
#include "bytetape/core/kernels/arithmetic.h"

#include <gtest/gtest.h>

#include <cstring>

#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"

namespace bytetape {
namespace {

TEST(ConstView, OfAConstantHasNoAddress) {
  const ConstView c = ConstView::constant(2.5, DType::f32, Device::cpu(), {3, 4});
  EXPECT_TRUE(c.is_constant());
  EXPECT_TRUE(c.defined());
  EXPECT_EQ(c.data(), nullptr);
  EXPECT_EQ(c.as<float>(), nullptr);
  float element = 0;
  std::memcpy(&element, &c.constant_bits(), sizeof element);
  EXPECT_EQ(element, 2.5f);
  EXPECT_EQ(c.expand({2, 3, 4}).data(), nullptr);
}

TEST(ConstView, ConstantsAreRoundedToTheirDtypeUnlessAskedNotTo) {
  const ConstView c = ConstView::constant(0.1, DType::bf16, Device::cpu(), {});
  EXPECT_EQ(c.number(), float{BFloat16(0.1f)});
  EXPECT_EQ(c.unrounded(0.1).number(), 0.1);
}

// Both ways through an elementwise kernel: in place, and walked by strides.
TEST(ConstView, KernelsReadConstants) {
  for (const Strides& strides : {Strides{3, 1}, Strides{1, 2}}) {
    const Tensor x = ones({6}, DType::i64).alias({2, 3}, strides, 0), y = empty({2, 3}, DType::i64);
    run<&ArithmeticKernels::add>(y.device(), x.read(), ConstView::constant(41, DType::i64, y.device(), y.shape()),
                                 y.write());
    EXPECT_EQ(y.to_vector<std::int64_t>(), std::vector<std::int64_t>(6, 42));
  }
}

}  // namespace
}  // namespace bytetape
