#include "bytetape/nn/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bytetape/bytetape.h"

namespace bytetape {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

double largest(const Tensor& x) { return max(abs(x)).item<double>(); }

TEST(Linear, StartsAsPyTorchDoes) {
  manual_seed(3);
  nn::Linear fc(400, 300);
  EXPECT_EQ(fc.weight.shape(), (Shape{300, 400}));
  EXPECT_LE(largest(fc.weight), 0.05);
  EXPECT_GT(largest(fc.weight), 0.0499);
  EXPECT_LE(largest(fc.bias), 0.05);
  EXPECT_NEAR(var(fc.weight).item<double>(), 0.05 * 0.05 / 3, 2e-5);
  EXPECT_FALSE(nn::Linear(3, 2, false).bias.defined());
}

TEST(Conv2d, StartsAsPyTorchDoes) {
  manual_seed(4);
  nn::Conv2d conv(16, 32, 3, {.groups = 4});
  EXPECT_EQ(conv.weight.shape(), (Shape{32, 4, 3, 3}));
  EXPECT_LE(largest(conv.weight), 1.0 / 6);
  EXPECT_GT(largest(conv.weight), 0.99 / 6);
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

TEST(Conv2d, RejectsBadOptions) {
  EXPECT_THROW(nn::Conv2d(2, 3, 3, {.groups = 2}), ValueError);
  EXPECT_THROW(nn::Conv2d(2, 2, 3, {.stride = 2, .padding = "same"}), ValueError);
  EXPECT_THROW(nn::Conv2d(2, 2, 3, {.padding = "full"}), ValueError);
}

TEST(Conv2d, TakesOptionsOfEveryIntegerType) {
  EXPECT_EQ(nn::Conv2d(1, 1, 1, {.padding = 2LL})(ones({1, 1, 3, 3})).shape(), (Shape{1, 1, 7, 7}));
  EXPECT_EQ(nn::Conv2d(1, 1, 1, {.stride = std::size_t{2}})(ones({1, 1, 3, 3})).shape(), (Shape{1, 1, 2, 2}));
  EXPECT_THROW(nn::Conv2d(1, 1, 1, {.padding = (1LL << 40) + 2})(ones({1, 1, 3, 3})), Error);
}

TEST(Layers, DescribeThemselves) {
  EXPECT_EQ(nn::Conv2d(1, 2, 4, {.padding = "same"}).describe(), "Conv2d(1, 2, kernel=4x4, padding=same)");
  EXPECT_EQ(nn::Conv2d(2, 4, 3, {.padding = 1, .groups = 2, .bias = false}).describe(),
            "Conv2d(2, 4, kernel=3x3, padding=1x1, groups=2, bias=false)");
  EXPECT_EQ(nn::MaxPool2d(3, 2, 1).describe(), "MaxPool2d(3x3, stride=2x2, padding=1x1)");
  EXPECT_EQ(nn::MaxPool2d(2).describe(), "MaxPool2d(2x2, stride=2x2)");
  EXPECT_EQ(nn::Flatten().describe(), "Flatten()");
  EXPECT_EQ(nn::Flatten(2).describe(), "Flatten(2, -1)");
}

TEST(Dropout, OnlyInTraining) {
  nn::Dropout drop(0.5);
  const Tensor x = randn({1000});
  EXPECT_NE(drop(x).to_vector<float>(), x.to_vector<float>());
  drop.eval();
  EXPECT_EQ(drop(x).to_vector<float>(), x.to_vector<float>());
  EXPECT_THROW(nn::Dropout(1.5), ValueError);
}

TEST(BatchNorm2d, TracksRunningStatistics) {
  nn::BatchNorm2d norm(3, {.momentum = 0.25});
  const Tensor x = randn({8, 3, 4, 4}) * 2 + 5;
  norm(x);
  const auto mean_of = mean(x, {0, 2, 3}).to_vector<double>(), var_of = var(x, {0, 2, 3}).to_vector<double>();
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(norm.running_mean.to_vector<double>()[c], 0.25 * mean_of[c], 1e-5);
    EXPECT_NEAR(norm.running_var.to_vector<double>()[c], 0.75 + 0.25 * var_of[c], 1e-4);
  }
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 1);
  norm.eval();
  const auto before = norm.running_mean.to_vector<double>();
  norm(x);
  EXPECT_EQ(norm.running_mean.to_vector<double>(), before);
}

TEST(BatchNorm2d, ErrorNamesTheShape) {
  nn::BatchNorm2d norm(3);
  EXPECT_THAT([&] { norm(randn({2, 3})); }, ThrowsMessage<ShapeError>(HasSubstr("(2, 3)")));
}

TEST(Flatten, OrdersElementsAsPyTorchWhateverTheLayout) {
  const Tensor x = randn({2, 3, 4, 5});
  nn::Flatten flatten;
  EXPECT_EQ(flatten(channels_last(x)).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(flatten(x).shape(), (Shape{2, 60}));
}

TEST(Sequential, RunsInOrderAndNamesByNumber) {
  nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
  EXPECT_EQ(net(randn({3, 4})).shape(), (Shape{3, 2}));
  EXPECT_EQ(net.named_parameters()[2].first, "2.weight");
  EXPECT_EQ(net.size(), 3u);
}

TEST(Init, KaimingAndXavierHaveTheirSpread) {
  manual_seed(5);
  Tensor w = empty({200, 50, 3, 3});
  nn::init::kaiming_normal_(w);
  EXPECT_NEAR(std::sqrt(var(w).item<double>()), std::sqrt(2.0 / 450), 2e-4);
  nn::init::xavier_uniform_(w);
  EXPECT_LE(largest(w), std::sqrt(6.0 / (450 + 1800)));
  Tensor flat = empty({3});
  EXPECT_THROW(nn::init::kaiming_uniform_(flat), ShapeError);
}

TEST(DefaultDevice, LayersAreMadeThere) {
  const DefaultDevice meta(Device::meta());
  const auto before = memory::allocator(Device::cpu()).statistics().allocations;
  nn::Linear fc(100000, 100000);
  EXPECT_TRUE(fc.weight.device().is_meta);
  EXPECT_EQ(memory::allocator(Device::cpu()).statistics().allocations, before);
}

}  // namespace
}  // namespace bytetape
