#include "bytetape/nn/linear.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(Linear, StartsAsPyTorchDoes) {
  manual_seed(3);
  nn::Linear fc(400, 300);
  EXPECT_EQ(fc.weight.shape(), (Shape{300, 400}));
  EXPECT_LE(max(abs(fc.weight)).item<double>(), 0.05);
  EXPECT_GT(max(abs(fc.weight)).item<double>(), 0.0499);
  EXPECT_LE(max(abs(fc.bias)).item<double>(), 0.05);
  EXPECT_NEAR(var(fc.weight).item<double>(), 0.05 * 0.05 / 3, 2e-5);
}

TEST(Linear, WithoutBias) {
  nn::Linear fc(3, 2, false);
  EXPECT_FALSE(fc.bias.defined());
  EXPECT_EQ(fc.state_dict().size(), 1u);
  EXPECT_EQ(fc.describe(), "Linear(3, 2, bias=false)");
}

TEST(Linear, TakesAnActivation) {
  struct Net : nn::Module {
    nn::Linear fc{6, 5};
    Net() { register_module("fc", fc); }
    Tensor forward(const Tensor& x) override { return fc(x, Activation::relu); }
  } net;
  const Tensor x = randn({4, 6}), y = net(x);
  EXPECT_EQ(y.to_vector<float>(), relu(net.fc(x)).to_vector<float>());
  EXPECT_EQ(net.fc(x, Activation::none).to_vector<float>(), net.fc(x).to_vector<float>());
  EXPECT_EQ(memory::name_of(y.storage().module()), "fc");
}

TEST(Linear, RejectsBadSizes) {
  EXPECT_THROWS_SAYING(nn::Linear(0, 2), ValueError, "Linear needs positive sizes, got 0 and 2");
  EXPECT_THROWS_SAYING(nn::Linear(2, 0), ValueError, "Linear needs positive sizes, got 2 and 0");
}

}  // namespace
}  // namespace bytetape
