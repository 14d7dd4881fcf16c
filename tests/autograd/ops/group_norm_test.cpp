#include "bytetape/autograd/ops/norm/group_norm.h"

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;

TEST(GroupNorm, KeepsNothingForItsBias) {
  const Tensor x = randn({5, 4, 3}), weight = ones(4), bias = zeros(4).set_requires_grad();
  const Tensor y = group_norm(x, 2, weight, bias);
  EXPECT_EQ(x.storage().role(), memory::Role::temporary);
  EXPECT_EQ(weight.storage().role(), memory::Role::temporary);
  sum(y).backward();
  EXPECT_EQ(bias.grad().to_vector<float>(), std::vector<float>(4, 15));
}

TEST(GroupNorm, KeepsChannelsLastThereAndBack) {
  const Tensor x = channels_last(randn({2, 8, 5, 6})).detach().set_requires_grad();
  const Tensor y = group_norm(x, 4);
  EXPECT_EQ(y.strides(), channels_last_strides(x.shape()));
  const Tensor g = grad({y}, {x}, {.seeds = {randn(x.shape())}})[0];
  EXPECT_EQ(g.strides(), channels_last_strides(x.shape()));
}

TEST(GroupNorm, SurvivesAMeanFarFromZero) {
  for (const bool last : {false, true}) {
    const Tensor x = randn({2, 8, 50, 40}) + 1e4, y = group_norm(last ? channels_last(x) : x, 4);
    const Tensor groups = reshape(y, {2, 4, -1});
    EXPECT_TRUE(all_close(mean(groups, 2).to_vector<double>(), std::vector<double>(8), 0, 1e-3));
    EXPECT_TRUE(all_close(var(groups, 2, false, 0).to_vector<double>(), std::vector<double>(8, 1), 0, 1e-2));
  }
}

TEST(GroupNorm, IsLayerNormOfOneGroup) {
  const Tensor x = random_leaf({3, 4, 5}), weight = random_leaf({4}), bias = random_leaf({4});
  const Tensor rows = layer_norm(x, {4, 5}) * unsqueeze(weight, 1) + unsqueeze(bias, 1);
  EXPECT_TRUE(all_close(group_norm(x, 1, weight, bias), rows));
}

// Also those that are computed in f32, to be differentiated again.
TEST(GroupNorm, GivesGradientsInTheDtypesOfItsInputs) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Tensor x = random_leaf({4, 6, 3, 3}, DType::bf16), weight = random_leaf({6}, dtype),
                 bias = random_leaf({6}, dtype), seed = test::random_tensor(x.shape(), DType::bf16);
    const auto gradients = [&](bool create_graph) {
      const Tensor y = group_norm(x, 2, weight, bias);
      return grad({y}, {x, weight, bias}, {.seeds = {seed}, .create_graph = create_graph});
    };
    const auto fused = gradients(false), recorded = gradients(true);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(recorded[i].dtype(), i == 0 ? DType::bf16 : dtype);
      EXPECT_TRUE(all_close(recorded[i], fused[i], 0.03, 0.03)) << i;
    }
  }
}

}  // namespace
}  // namespace bytetape
