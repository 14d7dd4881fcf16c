#include "bytetape/autograd/ops/reduce.h"

#include <cmath>

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

TEST(Reduce, ShapesFollowKeepdim) {
  const Tensor x = random_tensor({2, 3, 4});
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_EQ(sum(x, {}, true).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(sum(x, {-1, 0}).shape(), (Shape{3}));
  EXPECT_EQ(mean(x, {1}, true).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(max(x, {2}).shape(), (Shape{2, 3}));
  EXPECT_EQ(argmax(x, 1).shape(), (Shape{2, 4}));
  EXPECT_EQ(argmax(x, -1, true).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(argmax(x).shape(), Shape{});
  const Tensor scalar = random_tensor({});
  EXPECT_TRUE(all_close(sum(scalar, {0}), scalar));
  EXPECT_EQ(argmax(scalar, -1).item<int>(), 0);
}

TEST(Reduce, MeanAndVarAgreeWithTheirDefinitions) {
  const Tensor x = random_tensor({3, 5});
  const auto v = x.to_vector<double>();
  std::vector<double> means(3, 0), vars(3, 0);
  for (std::size_t i = 0; i < 15; ++i) means[i / 5] += v[i] / 5;
  for (std::size_t i = 0; i < 15; ++i) vars[i / 5] += std::pow(v[i] - means[i / 5], 2) / 4;
  EXPECT_TRUE(all_close(mean(x, {1}).to_vector<double>(), means));
  EXPECT_TRUE(all_close(var(x, {1}).to_vector<double>(), vars));
  EXPECT_TRUE(all_close(var(x, {1}, false, 0) * 5.0 / 4.0, var(x, {1})));
}

TEST(Reduce, MeanOfHalvesDoesNotOverflow) {
  const Tensor x = full({4096}, 100, DType::f16);
  EXPECT_EQ(mean(x).dtype(), DType::f16);
  EXPECT_EQ(mean(x).item<double>(), 100);
  EXPECT_TRUE(std::isinf(sum(x).item<double>()));
}

TEST(Reduce, NothingToReduce) {
  const Tensor none = empty({0, 3}, DType::f64);
  EXPECT_TRUE(all_close(sum(none, {0}).to_vector<double>(), {0, 0, 0}));
  EXPECT_TRUE(std::isnan(mean(none).item<double>()));
  EXPECT_EQ(max(none, {1}).shape(), (Shape{0}));
  EXPECT_TRUE(std::isnan(var(random_tensor({1})).item<double>()));
  EXPECT_THROWS_SAYING(max(none, {0}), ShapeError, "max: nothing to choose from in f64(0, 3) on cpu over dims (0,)");
  EXPECT_THROWS_SAYING(min(none), ShapeError, "min: nothing to choose from");
  EXPECT_THROWS_SAYING(argmax(none), ShapeError, "argmax: nothing to choose from");
  EXPECT_THROWS_SAYING(argmax(none, 0), ShapeError, "argmax: nothing to choose from in dim 0 of f64(0, 3)");
}

TEST(Reduce, RefusesWhatItCannotTake) {
  const Tensor x = random_tensor({2, 3});
  EXPECT_THROWS_SAYING(sum(x, {2}), ShapeError, "sum: dim 2 is out of range");
  EXPECT_THROWS_SAYING(mean(x, {0, -2}), ShapeError, "mean: dim 0 appears twice");
  EXPECT_THROWS_SAYING(mean(to(x, DType::i64)), DTypeError, "mean: expected a floating dtype, got i64(2, 3)");
  EXPECT_THROWS_SAYING(var(to(x, DType::i32)), DTypeError, "var: expected a floating dtype");
  EXPECT_THROWS_SAYING(sum({}), ValueError, "sum: the input is an undefined tensor");
  EXPECT_THROWS_SAYING(sum_to(x, {2, 2}), ShapeError, "sum_to: ");
}

TEST(Reduce, IntegersSumToI64) {
  const Tensor x = make_tensor({200, 100, 1, 2}, {2, 2}, DType::u8);
  EXPECT_EQ(sum(x, {0}).dtype(), DType::i64);
  EXPECT_EQ(sum(x).item<std::int64_t>(), 303);
  EXPECT_EQ(max(x).dtype(), DType::u8);
  EXPECT_EQ(max(x).item<int>(), 200);
}

TEST(Reduce, SumAndMeanSpreadTheGradient) {
  Tensor x = random_leaf({2, 3, 4});
  const Tensor seed = random_tensor({2, 4});
  const Tensor spread = expand(unsqueeze(seed, 1), {2, 3, 4});
  sum(x, {1}).backward(seed);
  EXPECT_TRUE(all_close(x.grad(), spread));
  x.set_grad({});
  mean(x, {-2}).backward(seed);
  EXPECT_TRUE(all_close(x.grad(), spread / 3));
}

TEST(Reduce, EqualExtremesShareTheGradient) {
  Tensor x = make_tensor({1, 7, 7, -2, 4, -2}, {2, 3});
  x.set_requires_grad();
  const Tensor seed = make_tensor({10, 3}, {2});
  max(x, {1}).backward(seed);
  EXPECT_TRUE(all_close(x.grad().to_vector<double>(), {0, 5, 5, 0, 3, 0}));
  x.set_grad({});
  min(x, {-1}, true).backward(reshape(seed, {2, 1}));
  EXPECT_TRUE(all_close(x.grad().to_vector<double>(), {10, 0, 0, 1.5, 0, 1.5}));
}

TEST(Reduce, VarIsDifferentiableTwice) {
  Tensor x = random_leaf({5});
  GradOptions options;
  options.create_graph = true;
  const Tensor g = grad({var(x)}, {x}, options)[0];
  EXPECT_TRUE(all_close(g, (x - mean(x)) * 0.5));
  const Tensor seed = random_tensor({5});
  const Tensor h = grad({g}, {x}, {.seeds = {seed}})[0];
  EXPECT_TRUE(all_close(h, (seed - mean(seed)) * 0.5));
}

TEST(Reduce, SumToUndoesExpand) {
  const Tensor x = random_tensor({4, 2, 3});
  EXPECT_TRUE(sum_to(x, {4, 2, 3}).is_same(x));
  EXPECT_TRUE(all_close(sum_to(x, {2, 1}), sum(x, {0, 2}, true).alias({2, 1}, {1, 1}, 0)));
  EXPECT_TRUE(all_close(sum_to(x, {}), sum(x)));
  EXPECT_EQ(sum_to(random_tensor({1, 1, 3}), {3}).shape(), (Shape{3}));
  Tensor leaf = random_leaf({4, 2, 3});
  const Tensor seed = random_tensor({1, 3});
  sum_to(leaf, {1, 3}).backward(seed);
  EXPECT_TRUE(all_close(leaf.grad(), expand(seed, {4, 2, 3})));
}

TEST(Reduce, RunsOnMeta) {
  const Tensor x = empty({3, 4}, DType::f32, Device::meta());
  for (const Tensor& y : {sum(x, {1}), mean(x, {1}), var(x, {1}), max(x, {1}), argmax(x, 1)}) {
    EXPECT_EQ(y.shape(), (Shape{3}));
    EXPECT_EQ(y.device(), Device::meta());
  }
}

TEST(Sum, DoesNotDependOnWhereTheDataLies) {
  const Tensor x = randn({1500}), wide = randn({2, 700});
  std::vector<float> room(4096);
  for (int shift = 0; shift < 16; ++shift) {
    const auto at = [&](const Tensor& t) {
      const auto values = t.to_vector<float>();
      std::copy(values.begin(), values.end(), room.begin() + shift);
      return from_blob(room.data() + shift, t.shape(), DType::f32);
    };
    EXPECT_EQ(sum(at(x)).item<float>(), sum(x).item<float>()) << shift;
    EXPECT_EQ(softmax(at(wide), 1).to_vector<float>(), softmax(wide, 1).to_vector<float>()) << shift;
    EXPECT_EQ(log_softmax(at(wide), 1).to_vector<float>(), log_softmax(wide, 1).to_vector<float>()) << shift;
  }
}

}  // namespace
}  // namespace bytetape
