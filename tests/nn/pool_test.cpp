#include "bytetape/nn/pool.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

TEST(MaxPool2d, StepsByItsKernelUnlessTold) {
  const Tensor x = randn({1, 1, 12, 12});
  EXPECT_EQ(nn::MaxPool2d(nn::Size2(3, 4))(x).shape(), (Shape{1, 1, 4, 3}));
  EXPECT_EQ(nn::MaxPool2d(3, 2, 1)(x).shape(), (Shape{1, 1, 6, 6}));
  EXPECT_EQ(nn::MaxPool2d(3, 2, 1).describe(), "MaxPool2d(3x3, stride=2x2, padding=1x1)");
  EXPECT_EQ(nn::MaxPool2d(2).describe(), "MaxPool2d(2x2, stride=2x2)");
  EXPECT_EQ(nn::MaxPool2d(nn::Size2(2, 3)).describe(), "MaxPool2d(2x3, stride=2x3)");
  EXPECT_EQ(nn::MaxPool2d(nn::Size2(2, 3), nn::Size2(4, 1)).describe(), "MaxPool2d(2x3, stride=4x1)");
}

TEST(AvgPool2d, StepsByItsKernelUnlessTold) {
  const Tensor x = randn({1, 1, 12, 12});
  EXPECT_EQ(nn::AvgPool2d(nn::Size2(3, 4))(x).shape(), (Shape{1, 1, 4, 3}));
  EXPECT_EQ(nn::AvgPool2d(3, 2, 1)(x).to_vector<float>(),
            avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}).to_vector<float>());
  EXPECT_EQ(nn::AvgPool2d(3, 2, 1, false)(x).to_vector<float>(),
            avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}, false).to_vector<float>());
}

TEST(MaxPool2d, AppliesAnActivation) {
  const Tensor x = test::random_tensor({2, 3, 6, 6}, DType::f32);
  nn::MaxPool2d pool(2);
  EXPECT_EQ(pool(x, Activation::relu).to_vector<float>(), pool(relu(x)).to_vector<float>());
  EXPECT_EQ(pool(x, Activation::none).to_vector<float>(), pool(x).to_vector<float>());
}

TEST(AvgPool2d, DescribesItself) {
  EXPECT_EQ(nn::AvgPool2d(2).describe(), "AvgPool2d(2x2, stride=2x2)");
  EXPECT_EQ(nn::AvgPool2d(3, 2, 1).describe(), "AvgPool2d(3x3, stride=2x2, padding=1x1)");
  EXPECT_EQ(nn::AvgPool2d(3, 2, 1, false).describe(),
            "AvgPool2d(3x3, stride=2x2, padding=1x1, count_include_pad=false)");
}

TEST(AdaptiveAvgPool2d, GivesTheSizeThatItWasTold) {
  const Tensor x = randn({2, 3, 7, 5});
  EXPECT_EQ(nn::AdaptiveAvgPool2d(1)(x).to_vector<float>(), mean(x, {2, 3}).to_vector<float>());
  EXPECT_EQ(nn::AdaptiveAvgPool2d({3, 9})(x).shape(), (Shape{2, 3, 3, 9}));
  EXPECT_EQ(nn::AdaptiveAvgPool2d({3, 9}).describe(), "AdaptiveAvgPool2d(3x9)");
}

}  // namespace
}  // namespace bytetape
