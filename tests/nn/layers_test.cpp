#include "bytetape/nn/layers.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(Activations, AreTheOpsOfTheirNames) {
  const Tensor x = randn({4, 5});
  const auto same = [&](nn::Module&& layer, const Tensor& expected, const std::string& description) {
    EXPECT_EQ(layer(x).to_vector<float>(), expected.to_vector<float>()) << description;
    EXPECT_EQ(layer.describe(), description);
    EXPECT_TRUE(layer.state_dict().empty()) << description;
  };
  same(nn::Identity(), x, "Identity()");
  same(nn::Lambda([](const Tensor& x) { return x * 2; }), x * 2, "Lambda()");
  same(nn::ReLU(), relu(x), "ReLU()");
  same(nn::GELU(), gelu(x), "GELU()");
  same(nn::GELU(Approximate::tanh), gelu(x, Approximate::tanh), "GELU(approximate=tanh)");
  same(nn::LeakyReLU(), leaky_relu(x), "LeakyReLU(0.01)");
  same(nn::LeakyReLU(0.2), leaky_relu(x, 0.2), "LeakyReLU(0.2)");
  same(nn::Softmax(-1), softmax(x, -1), "Softmax(-1)");
  same(nn::SiLU(), silu(x), "SiLU()");
  same(nn::Tanh(), tanh(x), "Tanh()");
  same(nn::Sigmoid(), sigmoid(x), "Sigmoid()");
}

TEST(Lambda, NeedsAFunction) {
  EXPECT_THROWS_SAYING(nn::Lambda(std::function<Tensor(const Tensor&)>()), ValueError, "Lambda needs a function");
}

TEST(Dropout, OnlyInTraining) {
  nn::Dropout drop(0.5);
  const Tensor x = randn({1000});
  EXPECT_NE(drop(x).to_vector<float>(), x.to_vector<float>());
  drop.eval();
  EXPECT_EQ(drop(x).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(drop.describe(), "Dropout(0.5)");
  EXPECT_THROW(nn::Dropout(1.5), ValueError);
  EXPECT_THROW(nn::Dropout(-0.5), ValueError);
  for (const double end : {0.0, 1.0}) EXPECT_NO_THROW(nn::Dropout{end});
}

TEST(Flatten, OrdersElementsAsPyTorchWhateverTheLayout) {
  const Tensor x = randn({2, 3, 4, 5});
  nn::Flatten flatten;
  EXPECT_EQ(flatten(channels_last(x)).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(flatten(x).shape(), (Shape{2, 60}));
  EXPECT_EQ(nn::Flatten(0, 1)(x).shape(), (Shape{6, 4, 5}));
  EXPECT_EQ(flatten.describe(), "Flatten()");
  EXPECT_EQ(nn::Flatten(2).describe(), "Flatten(2, -1)");
  EXPECT_EQ(nn::Flatten(1, 2).describe(), "Flatten(1, 2)");
}

}  // namespace
}  // namespace bytetape
