#include "bytetape/autograd/ops/concat.h"

#include "bytetape/autograd/ops.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_leaf;
using test::random_tensor;

TEST(Cat, JoinsTheFirstDimUnlessToldOtherwise) {
  const Tensor x = random_tensor({2, 3});
  EXPECT_EQ(cat({x, x, x}).shape(), (Shape{6, 3}));
  EXPECT_EQ(stack({x, x, x}).shape(), (Shape{3, 2, 3}));
}

TEST(Cat, KeepsChannelsLast) {
  const Tensor a = channels_last(random_tensor({2, 3, 4, 5})), b = random_tensor({2, 6, 4, 5});
  EXPECT_EQ(cat({a, b}, 1).strides(), channels_last_strides({2, 9, 4, 5}));
  EXPECT_EQ(cat({narrow(a, 1, 0, 2), b}, 1).strides(), channels_last_strides({2, 8, 4, 5}));
}

TEST(Cat, RefusesAViewLeftBehindInAnyPlace) {
  const Tensor p = random_leaf({2}), q = random_leaf({2});
  Tensor base = q * 3;
  const Tensor v = view(base, {2});
  mul_(base, 10);
  EXPECT_THROWS_SAYING(cat({v, p}, 0), AutogradError, "cat: an input, f64(2,) on cpu, is a view taken before 'mul_'");
  EXPECT_THROWS_SAYING(cat({p, v}, 0), AutogradError, "cat: an input, f64(2,) on cpu, is a view taken before 'mul_'");
}

}  // namespace
}  // namespace bytetape
