#include "bytetape/nn/init.h"

#include <cmath>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(Init, KaimingAndXavierHaveTheirSpread) {
  manual_seed(5);
  Tensor w = empty({200, 50, 3, 3});
  nn::init::kaiming_normal_(w);
  EXPECT_NEAR(std::sqrt(var(w).item<double>()), std::sqrt(2.0 / 450), 2e-4);
  nn::init::xavier_uniform_(w);
  EXPECT_LE(max(abs(w)).item<double>(), std::sqrt(6.0 / (450 + 1800)));
  EXPECT_GT(max(abs(w)).item<double>(), 0.99 * std::sqrt(6.0 / (450 + 1800)));
  Tensor flat = empty({3});
  EXPECT_THROW(nn::init::kaiming_uniform_(flat), ShapeError);
}

TEST(Init, FansCountTheElementsOfAChannelPair) {
  const Tensor w = empty({20, 50, 3, 2});
  EXPECT_EQ(nn::init::fan_in(w), 300);
  EXPECT_EQ(nn::init::fan_out(w), 120);
}

TEST(Init, WritesParametersOffTheTape) {
  nn::Linear fc(3, 2);
  nn::init::normal_(fc.weight, 5, 0.1);
  nn::init::constant_(fc.bias, 2);
  EXPECT_NEAR(mean(fc.weight).item<double>(), 5, 0.5);
  EXPECT_EQ(fc.bias.to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_TRUE(fc.weight.is_leaf());
}

}  // namespace
}  // namespace bytetape
