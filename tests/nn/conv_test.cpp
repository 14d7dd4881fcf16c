#include "bytetape/nn/conv.h"

#include <cmath>
#include <cstring>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(Conv2d, StartsAsPyTorchDoes) {
  manual_seed(4);
  nn::Conv2d conv(16, 32, 3, {.groups = 4});
  EXPECT_EQ(conv.weight.shape(), (Shape{32, 4, 3, 3}));
  EXPECT_LE(max(abs(conv.weight)).item<double>(), 1.0 / 6);
  EXPECT_GT(max(abs(conv.weight)).item<double>(), 0.99 / 6);
}

TEST(Conv2d, HoldsItsWeightChannelsLast) {
  manual_seed(4);
  nn::Conv2d conv(3, 5, {3, 2});
  manual_seed(4);
  Tensor row_major = empty({5, 3, 3, 2});
  nn::init::kaiming_uniform_(row_major, std::sqrt(5.0));
  EXPECT_EQ(conv.weight.to_vector<float>(), row_major.to_vector<float>());  // the same values for a seed

  const auto is_channels_last = [](const Tensor& x) { return bytetape::is_channels_last(x.shape(), x.strides()); };
  EXPECT_TRUE(is_channels_last(conv.weight));
  conv.to(DType::f64).to(DType::f32);
  EXPECT_TRUE(is_channels_last(conv.weight));
  sum(conv(randn({2, 3, 7, 7}))).backward();
  EXPECT_TRUE(is_channels_last(conv.weight.grad()));
  EXPECT_TRUE(is_channels_last(clone(conv.weight.detach())));
  conv.to(Device::meta());
  EXPECT_TRUE(is_channels_last(conv.weight));
}

TEST(Conv2d, LoadsRowMajorWeightsAndStaysChannelsLast) {
  nn::Conv2d conv(3, 5, {3, 2}, {.bias = false});
  const Tensor row_major = randn({5, 3, 3, 2});
  conv.load_state_dict({{"weight", row_major}});
  EXPECT_TRUE(is_channels_last(conv.weight.shape(), conv.weight.strides()));
  const Tensor saved = contiguous(conv.state_dict()[0].second.detach());
  EXPECT_EQ(std::memcmp(saved.data<float>(), row_major.data<float>(), row_major.nbytes()), 0);
}

TEST(Conv2d, SamePaddingKeepsTheSize) {
  for (int kernel : {1, 2, 3, 4, 5})
    for (int dilation : {1, 2}) {
      nn::Conv2d conv(2, 3, kernel, {.padding = "same", .dilation = dilation});
      EXPECT_EQ(conv(randn({2, 2, 9, 7})).shape(), (Shape{2, 3, 9, 7})) << kernel << " " << dilation;
    }
}

TEST(Conv2d, SamePaddingOfAnEvenKernelPadsOneMoreAtTheEnd) {
  // A 2x2 kernel that only reads its first element copies the image; one that reads the last shifts in zeros.
  nn::Conv2d conv(1, 1, 2, {.padding = "same", .bias = false});
  const Tensor x = randn({1, 1, 3, 3});
  conv.load_state_dict({{"weight", from_vector<float>({1, 0, 0, 0}, {1, 1, 2, 2})}});
  EXPECT_EQ(conv(x).to_vector<float>(), x.to_vector<float>());
  conv.load_state_dict({{"weight", from_vector<float>({0, 0, 0, 1}, {1, 1, 2, 2})}});
  EXPECT_EQ(select(select(conv(x), 2, 2), 2, 2).item<float>(), 0);
  EXPECT_EQ(select(select(conv(x), 2, 0), 2, 0).item<float>(), select(select(x, 2, 1), 2, 1).item<float>());
}

TEST(Conv2d, TakesOneNumberOrTwo) {
  const Tensor x = ones({1, 1, 9, 9});
  EXPECT_EQ(nn::Conv2d(1, 1, {3, 1}, {.stride = {2, 1}})(x).shape(), (Shape{1, 1, 4, 9}));
  EXPECT_EQ(nn::Conv2d(1, 1, 1, {.padding = {1, 2}})(x).shape(), (Shape{1, 1, 11, 13}));
  EXPECT_EQ(nn::Conv2d(1, 1, 1, {.padding = {1}})(x).shape(), (Shape{1, 1, 11, 11}));
  EXPECT_EQ(nn::Conv2d(1, 1, 3, {.dilation = {4, 1}})(x).shape(), (Shape{1, 1, 1, 7}));
  EXPECT_EQ(nn::Conv2d(1, 1, 3, {.padding = "valid"})(x).shape(), (Shape{1, 1, 7, 7}));
}

TEST(Conv2d, TakesOptionsOfEveryIntegerType) {
  EXPECT_EQ(nn::Conv2d(1, 1, 1, {.padding = 2LL})(ones({1, 1, 3, 3})).shape(), (Shape{1, 1, 7, 7}));
  EXPECT_EQ(nn::Conv2d(1, 1, 1, {.stride = std::size_t{2}})(ones({1, 1, 3, 3})).shape(), (Shape{1, 1, 2, 2}));
  EXPECT_THROW(nn::Conv2d(1, 1, 1, {.padding = (1LL << 40) + 2})(ones({1, 1, 3, 3})), Error);
}

TEST(Conv2d, TakesAnActivation) {
  nn::Conv2d conv(2, 3, 4, {.padding = "same"});
  const Tensor x = randn({2, 2, 7, 7});
  EXPECT_EQ(conv(x, Activation::relu).to_vector<float>(), relu(conv(x)).to_vector<float>());
  EXPECT_EQ(conv(x, Activation::none).to_vector<float>(), conv(x).to_vector<float>());
}

TEST(Conv2d, RejectsBadOptions) {
  EXPECT_THROWS_SAYING(nn::Conv2d(2, 3, 3, {.groups = 2}), ValueError, "that 2 groups divide, got 2 and 3");
  EXPECT_THROWS_SAYING(nn::Conv2d(2, 2, 3, {.stride = 2, .padding = "same"}), ValueError, "needs stride 1, got 2 x 2");
  EXPECT_THROWS_SAYING(nn::Conv2d(2, 2, 3, {.padding = "full"}), ValueError, "not \"full\"");
}

TEST(Conv2d, DescribesItself) {
  EXPECT_EQ(nn::Conv2d(1, 2, 4, {.padding = "same"}).describe(), "Conv2d(1, 2, kernel=4x4, padding=same)");
  EXPECT_EQ(nn::Conv2d(2, 4, 3, {.stride = {2, 1}, .padding = {1, 0}, .groups = 2, .bias = false}).describe(),
            "Conv2d(2, 4, kernel=3x3, stride=2x1, padding=1x0, groups=2, bias=false)");
}

}  // namespace
}  // namespace bytetape
