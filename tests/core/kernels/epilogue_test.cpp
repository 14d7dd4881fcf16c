#include "bytetape/core/kernels/epilogue.h"

#include <gtest/gtest.h>

namespace bytetape {
namespace {

constexpr Epilogues relu_alone{Activation::relu};
static_assert(relu_alone.contains(Activation::relu) && !relu_alone.contains(Activation::gelu_tanh));

TEST(Epilogues, AlwaysContainNone) {
  EXPECT_TRUE(Epilogues().contains(Activation::none));
  EXPECT_FALSE(Epilogues().contains(Activation::relu));
  EXPECT_TRUE(relu_alone.contains(Activation::none));
}

TEST(Epilogues, ContainNoValueThatIsNoActivation) {
  for (const int value : {-1, 3, 31, 32, 33, 40}) EXPECT_FALSE(relu_alone.contains(static_cast<Activation>(value)));
}

TEST(Activation, HasAName) {
  EXPECT_STREQ(name_of(Activation::none), "none");
  EXPECT_STREQ(name_of(Activation::gelu_tanh), "gelu_tanh");
  EXPECT_STREQ(name_of(static_cast<Activation>(40)), "an unknown activation");
}

}  // namespace
}  // namespace bytetape
