#include "bytetape/nn/sequential.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(Sequential, RunsInOrderAndNamesByNumber) {
  nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
  EXPECT_EQ(net(randn({3, 4})).shape(), (Shape{3, 2}));
  EXPECT_EQ(net.named_parameters()[2].first, "2.weight");
  EXPECT_EQ(net.size(), 3u);
  EXPECT_EQ(net.describe(), "Sequential");
}

TEST(Sequential, TakesNames) {
  nn::Sequential net(nn::Linear(4, 8));
  net.push_back("head", nn::Linear(8, 2)).push_back(nn::ReLU());
  EXPECT_EQ(net.named_parameters()[2].first, "head.weight");
  EXPECT_EQ(net.named_modules().back().first, "2");
  EXPECT_THROWS_SAYING(net.push_back("head", nn::ReLU()), ValueError, "head");
  EXPECT_EQ(net.size(), 3u);
  EXPECT_EQ(net(randn({3, 4})).shape(), (Shape{3, 2}));
}

TEST(Sequential, OfOneIsNotNested) {
  nn::Sequential net(nn::Sequential(nn::Linear(4, 8)));
  EXPECT_EQ(net.named_parameters()[0].first, "0.weight");
}

// A layer is moved in or shared: an lvalue would have to be copied.
static_assert(!std::is_constructible_v<nn::Sequential, nn::Sequential&, nn::ReLU>);
static_assert(!std::is_constructible_v<nn::Sequential, nn::Linear&>);
static_assert(std::is_constructible_v<nn::Sequential, nn::Linear, const std::shared_ptr<nn::Linear>&>);

}  // namespace
}  // namespace bytetape
