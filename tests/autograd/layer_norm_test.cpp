#include "bytetape/autograd/ops/layer_norm.h"

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(LayerNorm, KeepsNothingForItsBias) {
  const Tensor x = randn({5, 3}), weight = ones(3), bias = zeros(3).set_requires_grad();
  const Tensor y = layer_norm(x, 3, weight, bias);
  EXPECT_EQ(x.storage().role(), memory::Role::temporary);
  EXPECT_EQ(weight.storage().role(), memory::Role::temporary);
  sum(y).backward();
  EXPECT_EQ(bias.grad().to_vector<float>(), (std::vector<float>{5, 5, 5}));
}

TEST(LayerNorm, SurvivesAMeanFarFromZero) {
  const Tensor x = randn({4, 1000}, DType::f32) + 1e4;
  const Tensor y = layer_norm(x, 1000);
  EXPECT_TRUE(test::all_close(mean(y, 1).to_vector<double>(), std::vector<double>(4), 0, 1e-3));
  EXPECT_TRUE(test::all_close(var(y, 1, false, 0).to_vector<double>(), std::vector<double>(4, 1), 0, 1e-2));
}

}  // namespace
}  // namespace bytetape
