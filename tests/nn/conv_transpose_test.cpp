#include "bytetape/bytetape.h"
#include "bytetape/nn/conv.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(ConvTranspose2d, StartsAsPyTorchDoes) {
  manual_seed(4);
  nn::ConvTranspose2d up(32, 16, 3, {.groups = 4});
  EXPECT_EQ(up.weight.shape(), (Shape{32, 4, 3, 3}));
  EXPECT_EQ(up.bias.shape(), (Shape{16}));
  for (const Tensor& parameter : up.parameters()) {
    EXPECT_LE(max(abs(parameter)).item<double>(), 1.0 / 6);
    EXPECT_GT(max(abs(parameter)).item<double>(), 0.8 / 6);
  }
  EXPECT_TRUE(is_channels_last(up.weight.shape(), up.weight.strides()));
}

TEST(ConvTranspose2d, GivesTheSizesBackThatConv2dTook) {
  for (const std::int64_t size : {9, 10}) {
    const Tensor x = randn({2, 3, size, 8});
    nn::Conv2d down(3, 6, 3, {.stride = {2, 1}, .padding = 1});
    nn::ConvTranspose2d up(6, 3, 3, {.stride = {2, 1}, .padding = 1, .output_padding = {size % 2 == 0, 0}});
    EXPECT_EQ(up(down(x)).shape(), x.shape());
  }
}

TEST(ConvTranspose2d, IsTheTransposeOfConv2d) {
  nn::Conv2d down(4, 6, 3, {.stride = 2, .dilation = 2, .groups = 2, .bias = false});
  nn::ConvTranspose2d up(6, 4, 3, {.stride = 2, .dilation = 2, .groups = 2, .bias = false});
  down.to(DType::f64);
  up.to(DType::f64);
  up.weight = down.weight;
  const Tensor x = randn({2, 4, 9, 11}, DType::f64), y = randn(down(x).shape(), DType::f64);
  EXPECT_NEAR(sum(down(x) * y).item<double>(), sum(x * up(y)).item<double>(), 1e-10);
}

TEST(ConvTranspose2d, RejectsBadOptions) {
  EXPECT_THROWS_SAYING(nn::ConvTranspose2d(2, 3, 3, {.groups = 2}), ValueError, "that 2 groups divide, got 2 and 3");
  EXPECT_THROWS_SAYING(nn::ConvTranspose2d(2, 2, {3, 0}), ValueError, "ConvTranspose2d needs a positive kernel size");
}

TEST(ConvTranspose2d, DescribesItself) {
  EXPECT_EQ(nn::ConvTranspose2d(4, 2, 2, {.stride = 2}).describe(), "ConvTranspose2d(4, 2, kernel=2x2, stride=2x2)");
  EXPECT_EQ(
      nn::ConvTranspose2d(4, 2, 3, {.stride = {2, 1}, .output_padding = {1, 0}, .groups = 2, .bias = false}).describe(),
      "ConvTranspose2d(4, 2, kernel=3x3, stride=2x1, output_padding=1x0, groups=2, bias=false)");
}

}  // namespace
}  // namespace bytetape
