#include "bytetape/nn/norm.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(BatchNorm2d, StartsAsPyTorchDoes) {
  nn::BatchNorm2d norm(2);
  EXPECT_EQ(norm.weight.to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(norm.bias.to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(norm.running_mean.to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(norm.running_var.to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(norm.describe(), "BatchNorm2d(2)");
}

TEST(BatchNorm2d, TracksRunningStatisticsInTrainingAlone) {
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
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 1);
}

TEST(BatchNorm2d, AddsAndActivatesInTheSameOp) {
  nn::BatchNorm2d norm(3), parts(3);
  const Tensor x = randn({4, 3, 5, 5}), residual = randn(x.shape());
  const auto expected = relu(parts(x) + residual).to_vector<float>();
  EXPECT_EQ(norm(x, residual, Activation::relu).to_vector<float>(), expected);
  EXPECT_EQ(norm.running_var.to_vector<float>(), parts.running_var.to_vector<float>());
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 1);
  EXPECT_EQ(norm(x, Activation::relu).to_vector<float>(), relu(parts(x)).to_vector<float>());
  EXPECT_EQ(norm(x, residual).to_vector<float>(), (parts(x) + residual).to_vector<float>());
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 3);
}

TEST(BatchNorm2d, LeavesOutWhatOptionsSay) {
  nn::BatchNorm2d norm(3, {.affine = false, .track_running_stats = false});
  EXPECT_TRUE(norm.state_dict().empty());
  norm.eval();  // without running statistics the batch's are used
  EXPECT_NEAR(mean(norm(randn({8, 3, 4, 4}) + 5)).item<double>(), 0, 1e-5);
}

TEST(BatchNorm2d, ErrorNamesTheShape) {
  nn::BatchNorm2d norm(3);
  EXPECT_THROWS_SAYING(norm(randn({2, 3})), ShapeError, "(2, 3)");
  EXPECT_THROWS_SAYING(norm(randn({2, 3, 4, 5, 6})), ShapeError, "BatchNorm2d expects (n, c, h, w) with c = 3");
  EXPECT_THROWS_SAYING(norm({}), ShapeError, "(n, c, h, w) with c = 3, got an undefined tensor");
  EXPECT_THROW(norm(randn({2, 5, 4, 4})), ShapeError);
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 0) << "a batch that was refused";
}

TEST(BatchNorm, NeedsFeatures) {
  for (const int n : {0, -3}) {
    EXPECT_THROWS_SAYING(nn::BatchNorm1d{n}, ValueError, "BatchNorm1d needs a positive number of features, got ");
    EXPECT_THROWS_SAYING(nn::BatchNorm2d{n}, ValueError, "BatchNorm2d needs a positive number of features, got ");
  }
}

TEST(BatchNorm1d, IsBatchNorm2dOfOneRow) {
  nn::BatchNorm1d norm(3);
  nn::BatchNorm2d image(3);
  EXPECT_EQ(norm.describe(), "BatchNorm1d(3)");
  EXPECT_EQ(norm.state_dict().size(), image.state_dict().size());
  const Tensor x = randn({6, 3, 5}), residual = randn(x.shape());
  EXPECT_EQ(norm(x).to_vector<float>(), image(unsqueeze(x, 2)).to_vector<float>());
  EXPECT_EQ(norm.running_var.to_vector<float>(), image.running_var.to_vector<float>());
  EXPECT_EQ(norm(x, residual, Activation::relu).to_vector<float>(),
            image(unsqueeze(x, 2), unsqueeze(residual, 2), Activation::relu).to_vector<float>());
  norm.eval(), image.eval();
  const Tensor rows = randn({4, 3});
  EXPECT_EQ(norm(rows).to_vector<float>(), image(view(rows, {4, 3, 1, 1})).to_vector<float>());
  EXPECT_THROWS_SAYING(norm(randn({2, 3, 4, 4})), ShapeError, "BatchNorm1d expects (n, c) or (n, c, l) with c = 3");
}

TEST(BatchNorm1d, TakesTheReLUBehindItIntoItsOp) {
  nn::Sequential net(nn::BatchNorm1d(3), nn::ReLU());
  nn::BatchNorm1d norm(3);
  const Tensor x = randn({6, 3}).set_requires_grad();
  EXPECT_EQ(net(x).to_vector<float>(), relu(norm(x)).to_vector<float>());
}

TEST(GroupNorm, IsTheOpOfItsGroups) {
  nn::GroupNorm norm(2, 6);
  EXPECT_EQ(norm.weight.to_vector<float>(), std::vector<float>(6, 1));
  EXPECT_EQ(norm.bias.to_vector<float>(), std::vector<float>(6, 0));
  EXPECT_EQ(norm.describe(), "GroupNorm(2, 6)");
  EXPECT_EQ(norm(ones({3, 6})).to_vector<float>(), std::vector<float>(18, 0)) << "without dims of space";
  nn::init::normal_(norm.weight);
  nn::init::normal_(norm.bias);
  const Tensor x = randn({3, 6, 4});
  EXPECT_EQ(norm(x).to_vector<float>(), group_norm(x, 2, norm.weight, norm.bias).to_vector<float>());
  EXPECT_THROWS_SAYING(norm(randn({3, 4, 4})), ShapeError, "GroupNorm expects (n, 6, ...), got f32(3, 4, 4)");
  EXPECT_THROWS_SAYING(norm(randn({6})), ShapeError, "GroupNorm expects (n, 6, ...), got f32(6,)");
  EXPECT_THROWS_SAYING(norm({}), ShapeError, "GroupNorm expects (n, 6, ...), got an undefined tensor");
}

TEST(InstanceNorm2d, NormalisesEachChannelOfEachImage) {
  nn::InstanceNorm2d norm(3, {.eps = 0});
  const Tensor x = randn({2, 3, 5, 4}) * 3 + 2, y = norm(x);
  EXPECT_LT(max(abs(mean(y, {2, 3}))).item<double>(), 1e-6);
  EXPECT_LT(max(abs(var(y, {2, 3}, false, 0) - 1)).item<double>(), 1e-5);
  EXPECT_TRUE(norm.state_dict().empty()) << "PyTorch's default";
  EXPECT_EQ(norm.describe(), "InstanceNorm2d(3)");
}

TEST(InstanceNorm2d, ScalesAndShiftsIfItIsAffine) {
  nn::InstanceNorm2d norm(3, {.eps = 0.5, .affine = true});
  nn::init::normal_(norm.weight);
  nn::init::normal_(norm.bias);
  const Tensor x = randn({2, 3, 5, 4});
  EXPECT_EQ(norm(x).to_vector<float>(), group_norm(x, 3, norm.weight, norm.bias, 0.5).to_vector<float>());
  EXPECT_THROWS_SAYING(norm({}), ShapeError, "InstanceNorm2d expects (n, 3, h, w), got an undefined tensor");
  EXPECT_THROWS_SAYING(norm(randn({2, 3, 5})), ShapeError, "InstanceNorm2d expects (n, 3, h, w), got f32(2, 3, 5)");
  EXPECT_THROWS_SAYING(norm(randn({2, 4, 5, 5})), ShapeError,
                       "InstanceNorm2d expects (n, 3, h, w), got f32(2, 4, 5, 5)");
  EXPECT_THROWS_SAYING(nn::InstanceNorm2d(0), ValueError, "InstanceNorm2d needs a positive number of features, got 0");
}

TEST(GroupNorm, LeavesOutWhatOptionsSay) {
  nn::GroupNorm norm(3, 6, {.eps = 10, .affine = false});
  EXPECT_TRUE(norm.state_dict().empty());
  const Tensor x = randn({2, 6, 4}) * 100;
  EXPECT_EQ(norm(x).to_vector<float>(), group_norm(x, 3, {}, {}, 10).to_vector<float>());
  EXPECT_THROWS_SAYING(nn::GroupNorm(4, 6), ValueError, "divides its channels, got 4 and 6");
  for (const auto& [groups, channels] : {std::pair(2, 0), {0, 2}, {2, -2}, {-2, 2}})
    EXPECT_THROWS_SAYING(nn::GroupNorm(groups, channels), ValueError,
                         detail::concat("divides its channels, got ", groups, " and ", channels));
}

TEST(LayerNorm, IsTheOpOverItsShape) {
  nn::LayerNorm norm({3, 4});
  EXPECT_EQ(norm.weight.to_vector<float>(), std::vector<float>(12, 1));
  EXPECT_EQ(norm.bias.to_vector<float>(), std::vector<float>(12, 0));
  EXPECT_EQ(norm.describe(), "LayerNorm((3, 4))");
  nn::init::normal_(norm.weight);
  nn::init::normal_(norm.bias);
  const Tensor x = randn({5, 3, 4});
  EXPECT_EQ(norm(x).to_vector<float>(), layer_norm(x, {3, 4}, norm.weight, norm.bias).to_vector<float>());
}

TEST(LayerNorm, TakesOneDimInBraces) {
  EXPECT_EQ(nn::LayerNorm({32}, {.eps = 0.5}).weight.shape(), Shape{32});
  EXPECT_EQ(nn::RMSNorm({32}).weight.shape(), Shape{32});
}

TEST(LayerNorm, AddsInTheSameOp) {
  nn::LayerNorm norm(6);
  nn::init::normal_(norm.weight);
  const Tensor x = randn({5, 6}), residual = randn({5, 6});
  const auto [y, sum] = norm(x, residual);
  EXPECT_EQ(sum.to_vector<float>(), (x + residual).to_vector<float>());
  EXPECT_EQ(y.to_vector<float>(), norm(x + residual).to_vector<float>());
}

TEST(RMSNorm, IsTheOpOverItsShape) {
  nn::RMSNorm norm({3, 4}, {.eps = 0.5});
  EXPECT_EQ(norm.weight.to_vector<float>(), std::vector<float>(12, 1));
  EXPECT_EQ(norm.describe(), "RMSNorm((3, 4))");
  EXPECT_EQ(norm.state_dict()[0].first, "weight");
  nn::init::normal_(norm.weight);
  const Tensor x = randn({5, 3, 4});
  EXPECT_EQ(norm(x).to_vector<float>(), rms_norm(x, {3, 4}, norm.weight, 0.5).to_vector<float>());
  nn::RMSNorm bare(4, {.elementwise_affine = false});
  EXPECT_EQ(bare.state_dict().size(), 0u);
  EXPECT_EQ(bare(x).to_vector<float>(), rms_norm(x, 4).to_vector<float>());
  EXPECT_THROWS_SAYING(nn::RMSNorm({3, 0}), ValueError, "RMSNorm needs positive sizes, got (3, 0)");
}

TEST(LayerNorm, LeavesOutWhatOptionsSay) {
  const auto keys = [](const nn::Module& m) { return m.state_dict().size(); };
  EXPECT_EQ(keys(nn::LayerNorm(4, {.bias = false})), 1u);
  EXPECT_EQ(keys(nn::LayerNorm(4, {.elementwise_affine = false})), 0u);
  EXPECT_THROWS_SAYING(nn::LayerNorm({3, 0}), ValueError, "LayerNorm needs positive sizes, got (3, 0)");
  EXPECT_THROWS_SAYING(nn::LayerNorm(Shape{}), ValueError, "LayerNorm needs positive sizes, got ()");
  const Tensor x = randn({2, 4}) * 100;
  EXPECT_EQ(nn::LayerNorm(4, {.eps = 10})(x).to_vector<float>(),
            layer_norm(x, 4, ones(4), zeros(4), 10).to_vector<float>());
}

}  // namespace
}  // namespace bytetape
