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
  for (const nn::Size2 kernel : {nn::Size2(3, 2), nn::Size2(2, 3), nn::Size2(1, 4), nn::Size2(3)})
    for (const nn::Size2 dilation : {nn::Size2(1), nn::Size2(1, 2), nn::Size2(3, 1)}) {
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

TEST(Conv1d, StartsAsPyTorchDoes) {
  manual_seed(4);
  nn::Conv1d conv(16, 64, 9, {.groups = 4});
  EXPECT_EQ(conv.weight.shape(), (Shape{64, 4, 9}));
  EXPECT_EQ(conv.weight.strides(), (Strides{36, 1, 4}));
  EXPECT_LE(max(abs(conv.weight)).item<double>(), 1.0 / 6);
  EXPECT_GT(max(abs(conv.weight)).item<double>(), 0.99 / 6);
  EXPECT_LE(max(abs(conv.bias)).item<double>(), 1.0 / 6);
  EXPECT_EQ(conv.describe(), "Conv1d(16, 64, kernel=9, groups=4)");
}

TEST(Conv1d, IsTheOpWithItsOptions) {
  nn::Conv1d conv(4, 6, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2, .bias = false});
  const Tensor x = randn({2, 4, 15});
  EXPECT_EQ(conv(x).to_vector<float>(), conv1d(x, conv.weight, {}, {2, 1, 2, 2}).to_vector<float>());
  EXPECT_EQ(conv(x, Activation::relu).to_vector<float>(), relu(conv(x)).to_vector<float>());
  EXPECT_EQ(conv.describe(), "Conv1d(4, 6, kernel=3, stride=2, padding=1, dilation=2, groups=2, bias=false)");
}

TEST(Conv1d, SamePaddingKeepsTheLength) {
  for (int kernel : {1, 2, 3, 4, 5})
    for (int dilation : {1, 2}) {
      nn::Conv1d conv(2, 3, kernel, {.padding = "same", .dilation = dilation});
      EXPECT_EQ(conv(randn({2, 2, 9})).shape(), (Shape{2, 3, 9})) << kernel << " " << dilation;
    }
  nn::Conv1d conv(1, 1, 2, {.padding = "same", .bias = false});  // pads one more at the end
  const Tensor x = randn({1, 1, 3});
  conv.load_state_dict({{"weight", from_vector<float>({1, 0}, {1, 1, 2})}});
  EXPECT_EQ(conv(x).to_vector<float>(), x.to_vector<float>());
}

TEST(Conv1d, RefusesBadOptions) {
  EXPECT_THROWS_SAYING(nn::Conv1d(3, 4, 0), ValueError, "Conv1d needs a positive kernel size");
  EXPECT_THROWS_SAYING(nn::Conv1d(3, 4, 3, {.groups = 2}), ValueError, "Conv1d needs positive channels");
  EXPECT_THROWS_SAYING(nn::Conv1d(3, 4, 3, {.padding = "full"}), ValueError, "Conv1d: padding is a size, \"same\"");
  EXPECT_THROWS_SAYING(nn::Conv1d(3, 4, 3, {.stride = 2, .padding = "same"}), ValueError, "needs stride 1, got 2");
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
  for (const Size2 stride : {Size2(2, 2), Size2(1, 2), Size2(2, 1)})
    EXPECT_THROWS_SAYING(nn::Conv2d(2, 2, 3, {.stride = stride, .padding = "same"}), ValueError,
                         detail::concat("needs stride 1, got ", stride.h, " x ", stride.w));
  EXPECT_THROWS_SAYING(nn::Conv2d(2, 2, 3, {.padding = "full"}), ValueError, "not \"full\"");
  EXPECT_THROWS_SAYING(nn::Padding2(static_cast<const char*>(nullptr)), ValueError, "padding is a null pointer");
}

TEST(Convolutions, NeedPositiveSizes) {
  struct Case {
    std::int64_t in, out;
    Size2 kernel;
    std::int64_t groups;
    const char* words;
  };
  for (const Case& c : {Case{0, 2, 3, 1, "needs positive channels that 1 groups divide, got 0 and 2"},
                        {2, 0, 3, 1, "got 2 and 0"},
                        {-2, 2, 3, 1, "got -2 and 2"},
                        {2, -2, 3, 1, "got 2 and -2"},
                        {2, 2, 3, 0, "that 0 groups divide"},
                        {2, 2, 3, -1, "that -1 groups divide"},
                        {3, 2, 3, 2, "that 2 groups divide, got 3 and 2"},
                        {2, 3, 3, 2, "that 2 groups divide, got 2 and 3"},
                        {2, 2, {0, 3}, 1, "needs a positive kernel size, got 0 x 3"},
                        {2, 2, {3, 0}, 1, "needs a positive kernel size, got 3 x 0"}}) {
    EXPECT_THROWS_SAYING(nn::Conv2d(c.in, c.out, c.kernel, {.groups = c.groups}), ValueError, c.words);
    EXPECT_THROWS_SAYING(nn::ConvTranspose2d(c.in, c.out, c.kernel, {.groups = c.groups}), ValueError, c.words);
  }
}

TEST(Conv2d, DescribesItself) {
  EXPECT_EQ(nn::Conv2d(1, 2, 4, {.padding = "same"}).describe(), "Conv2d(1, 2, kernel=4x4, padding=same)");
  EXPECT_EQ(nn::Conv2d(2, 4, 3, {.stride = {2, 1}, .padding = {1, 0}, .groups = 2, .bias = false}).describe(),
            "Conv2d(2, 4, kernel=3x3, stride=2x1, padding=1x0, groups=2, bias=false)");
}

}  // namespace
}  // namespace bytetape
