#include "bytetape/autograd/ops/concat.h"

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::make_tensor;
using test::random_leaf;
using test::random_tensor;

TEST(Cat, JoinsAlongADim) {
  const Tensor a = random_tensor({2, 3, 4}), b = random_tensor({2, 1, 4}), none = random_tensor({2, 0, 4});
  const Tensor y = cat({a, none, b}, -2);
  EXPECT_EQ(y.shape(), (Shape{2, 4, 4}));
  EXPECT_TRUE(all_close(narrow(y, 1, 0, 3), a));
  EXPECT_TRUE(all_close(narrow(y, 1, 3, 1), b));
  EXPECT_TRUE(all_close(cat({transpose(a, 0, 1), transpose(b, 0, 1)}), transpose(y, 0, 1)));
}

TEST(Cat, KeepsChannelsLast) {
  const Tensor a = channels_last(random_tensor({2, 3, 4, 5})), b = random_tensor({2, 6, 4, 5});
  const Tensor y = cat({a, b}, 1);
  EXPECT_EQ(y.strides(), channels_last_strides({2, 9, 4, 5}));
  EXPECT_TRUE(all_close(narrow(y, 1, 3, 6), b));
}

TEST(Cat, SplitsTheGradient) {
  Tensor a = random_leaf({2, 3}), b = random_leaf({2, 2});
  const Tensor fixed = random_tensor({2, 1}), seed = random_tensor({2, 6});
  cat({a, fixed, b}, 1).backward(seed);
  EXPECT_TRUE(all_close(a.grad(), narrow(seed, 1, 0, 3)));
  EXPECT_TRUE(all_close(b.grad(), narrow(seed, 1, 4, 2)));
  a.set_grad({});
  cat({a, a}).backward(random_tensor({4, 3}));
  EXPECT_TRUE(a.grad().is_contiguous());
}

TEST(Cat, IsDifferentiableTwice) {
  Tensor a = random_leaf({3}), w = random_leaf({5});
  GradOptions options;
  options.create_graph = true;
  options.seeds = {w};
  const Tensor g = grad({cat({a, random_tensor({2})})}, {a}, options)[0];
  const Tensor v = random_tensor({3});
  EXPECT_TRUE(all_close(grad({g}, {w}, {.seeds = {v}})[0], cat({v, zeros({2}, DType::f64)})));
}

TEST(Stack, AddsADim) {
  Tensor a = random_leaf({2, 3});
  const Tensor b = random_tensor({2, 3}), y = stack({a, b}, -1);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 2}));
  EXPECT_TRUE(all_close(select(y, 2, 1), b));
  EXPECT_TRUE(all_close(select(stack({a, b}), 0, 0), a));
  EXPECT_EQ(stack({random_tensor({}), random_tensor({})}).shape(), (Shape{2}));
  const Tensor seed = random_tensor({2, 3, 2});
  y.backward(seed);
  EXPECT_TRUE(all_close(a.grad(), select(seed, 2, 0)));
}

TEST(Cat, NamesTheMisfit) {
  const Tensor a = random_tensor({2, 3}), b = random_tensor({3, 3});
  EXPECT_THROWS_SAYING(cat({}), ValueError, "cat: expected at least one tensor");
  EXPECT_THROWS_SAYING(cat({a, {}}), ValueError, "cat: tensor 1 is undefined");
  EXPECT_THROWS_SAYING(cat({a, a, b}, 1), ShapeError,
                       "cat: tensor 2, f64(3, 3) on cpu, does not fit tensor 0, f64(2, 3) on cpu, outside dim 1");
  EXPECT_THROWS_SAYING(cat({a, random_tensor({2})}), ShapeError, "tensor 1, f64(2,) on cpu, does not fit");
  EXPECT_THROWS_SAYING(cat({a, to(a, DType::f32)}), DTypeError, "tensor 1, f32(2, 3) on cpu, and tensor 0, f64(2, 3)");
  EXPECT_THROWS_SAYING(cat({a, to(a, Device::meta())}), DeviceError, "on different devices");
  EXPECT_THROWS_SAYING(cat({random_tensor({}), random_tensor({})}), ShapeError, "scalars have no dim to join");
  EXPECT_THROWS_SAYING(cat({a}, 2), ShapeError, "cat: dim 2 is out of range");
  EXPECT_THROWS_SAYING(stack({a, b}), ShapeError, "stack: tensor 1, f64(3, 3) on cpu, does not fit tensor 0");
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
