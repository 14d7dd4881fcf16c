// The memory that the portable convolution takes for the gradient of its weight: parts that are summed, and what each
// thread needs.
#include <gtest/gtest.h>

#include "bytetape/core/cpu/table.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/conv.h"

namespace bytetape {
namespace {

std::size_t weight_grad_memory(std::int64_t images, std::int64_t channels) {
  const Tensor x = empty({images, channels, 3, 3}, DType::f64), gy = empty({images, channels, 1, 1}, DType::f64),
               gw = empty({channels, channels, 3, 3}, DType::f64);
  Conv2dWeightGradArgs args{};
  args.x = x.read();
  args.gy = gy.read();
  args.gw = gw.write();
  return cpu::portable::conv_kernels().conv2d_weight_grad.plan(args).workspace;
}

TEST(ConvPlans, AnImageHasAPartOfTheWeightsGradientUpToSixteen) {
  const std::size_t one = weight_grad_memory(1, 4), part = 4 * 4 * 9 * sizeof(double);
  EXPECT_EQ(weight_grad_memory(0, 4), one);
  EXPECT_GE(weight_grad_memory(2, 4), one + part);
  EXPECT_GE(weight_grad_memory(16, 4), one + 15 * part);
  EXPECT_LT(weight_grad_memory(16, 4), one + 17 * part);
  EXPECT_EQ(weight_grad_memory(17, 4), weight_grad_memory(16, 4));
  EXPECT_EQ(weight_grad_memory(100, 4), weight_grad_memory(16, 4));
}

TEST(ConvPlans, LargeWeightsHaveFewerParts) {  // 2^22 elements of gradient in all
  const std::int64_t channels = 400;           // 1.44 million elements: two parts
  EXPECT_GT(weight_grad_memory(2, channels), weight_grad_memory(1, channels));
  EXPECT_EQ(weight_grad_memory(16, channels), weight_grad_memory(2, channels));
  EXPECT_EQ(weight_grad_memory(16, 700), weight_grad_memory(1, 700)) << "more than half of them: one part";
}

}  // namespace
}  // namespace bytetape
