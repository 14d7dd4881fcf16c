// The layers of docs/layers.md, which quotes this.
#include <gtest/gtest.h>

#include <cmath>

#include "bytetape/bytetape.h"

namespace bytetape {
namespace {

TEST(Catalogue, EveryLayerTrains) {
  manual_seed(1);
  nn::Sequential net{nn::Conv2d(3, 16, 3, {.padding = "same"}),
                     nn::BatchNorm2d(16),
                     nn::ReLU(),
                     nn::MaxPool2d(2),
                     nn::ConvTranspose2d(16, 8, 4, {.stride = 2, .padding = 1}),
                     nn::GroupNorm(4, 8),
                     nn::LeakyReLU(0.2),
                     nn::AvgPool2d(/*kernel_size=*/3, /*stride=*/2, /*padding=*/1),
                     nn::Upsample({.scale_factor = 2, .mode = InterpolationMode::bilinear}),
                     nn::SiLU(),
                     nn::AdaptiveAvgPool2d(4),
                     nn::Flatten(),
                     nn::Linear(8 * 4 * 4, 64, /*bias=*/false),
                     nn::BatchNorm1d(64),
                     nn::GELU(Approximate::tanh),
                     nn::Dropout(0.1),
                     nn::Linear(64, 32),
                     nn::LayerNorm(32),
                     nn::Tanh(),
                     nn::Linear(32, 16),
                     nn::Sigmoid(),
                     nn::Linear(16, 10),
                     nn::Softmax(/*dim=*/1)};
  const Tensor x = randn({6, 3, 16, 16}), y = net(x);
  ASSERT_EQ(y.shape(), (Shape{6, 10}));
  for (const double total : sum(y, 1).to_vector<double>()) EXPECT_NEAR(total, 1, 1e-6);
  nll_loss(log(y), randint(0, 10, {6})).backward();
  for (const auto& [name, p] : net.named_parameters()) {
    ASSERT_TRUE(p.grad().defined()) << name;
    EXPECT_TRUE(std::isfinite(norm(p.grad()).item<double>())) << name;
  }
}

}  // namespace
}  // namespace bytetape
