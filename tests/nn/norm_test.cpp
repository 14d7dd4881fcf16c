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

TEST(BatchNorm2d, LeavesOutWhatOptionsSay) {
  nn::BatchNorm2d norm(3, {.affine = false, .track_running_stats = false});
  EXPECT_TRUE(norm.state_dict().empty());
  norm.eval();  // without running statistics the batch's are used
  EXPECT_NEAR(mean(norm(randn({8, 3, 4, 4}) + 5)).item<double>(), 0, 1e-5);
}

TEST(BatchNorm2d, ErrorNamesTheShape) {
  nn::BatchNorm2d norm(3);
  EXPECT_THROWS_SAYING(norm(randn({2, 3})), ShapeError, "(2, 3)");
  EXPECT_THROW(norm(randn({2, 5, 4, 4})), ShapeError);
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 0) << "a batch that was refused";
}

}  // namespace
}  // namespace bytetape
