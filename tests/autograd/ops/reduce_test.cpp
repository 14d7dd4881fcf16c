#include "bytetape/autograd/ops/reduce.h"

#include <cmath>
#include <limits>

#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/gradcheck.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::make_tensor;
using test::random_tensor;

TEST(Reduce, KeepsDimsWhereAsked) {
  const Tensor x = random_tensor({2, 3, 4});
  EXPECT_EQ(sum(x, {}, true).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(var(x, {1}, true).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(argmax(x, -1, true).shape(), (Shape{2, 3, 1}));
}

TEST(Mean, OfHalvesDoesNotOverflow) {
  const Tensor x = full({4096}, 100, DType::f16);
  EXPECT_EQ(mean(x).dtype(), DType::f16);
  EXPECT_EQ(mean(x).item<double>(), 100);
  EXPECT_TRUE(std::isinf(sum(x).item<double>()));
}

// Divided before it is rounded, and in one kernel.
TEST(Mean, IsTheQuotientOfTheSum) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const Shape& shape : {Shape{3, 7}, Shape{70'001, 3}, Shape{5, 40'000}})
      for (const Dims& dims : {Dims{0}, Dims{1}, Dims{0, 1}}) {
        const Tensor x = random_tensor(shape, dtype);
        std::int64_t n = 1;
        for (const std::int64_t d : dims) n *= shape[static_cast<int>(d)];
        const auto before = test::statistics().allocations;
        const Tensor y = mean(x, dims);
        EXPECT_EQ(test::statistics().allocations, before + 1);
        const Autocast wide(DType::bf16);  // sums of 16 bits are f32
        EXPECT_EQ(y.to_vector<double>(), to(sum(x, dims) / n, dtype).to_vector<double>()) << dtype << shape << dims;
      }
}

// PyTorch's subgradient, and nothing of 0 / 0 in a second derivative.
TEST(Norm, HasNoGradientAtZero) {
  const Tensor x = make_tensor({0, 0, 3, 4}, {2, 2}).set_requires_grad();
  const Tensor y = norm(x, 1);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{0, 5}));
  const Tensor g = grad({y}, {x}, {.seeds = {ones_like(y)}, .create_graph = true})[0];
  EXPECT_TRUE(all_close(g.to_vector<double>(), {0, 0, 0.6, 0.8}));
  const Tensor again = grad({g}, {x}, {.seeds = {make_tensor({1, 1, 1, 0}, {2, 2})}})[0];
  EXPECT_TRUE(all_close(again.to_vector<double>(), {0, 0, 0.128, -0.096}));
}

TEST(Norm, OfHalvesDoesNotOverflow) { EXPECT_EQ(norm(full({4}, 1000, DType::f16)).item<double>(), 2000); }

TEST(Std, HasNoGradientWhereAllAreEqual) {
  const Tensor x = make_tensor({2, 2, 2, 1, 2, 3}, {2, 3}).set_requires_grad();
  const Tensor y = bytetape::std(x, 1);
  EXPECT_TRUE(all_close(y.to_vector<double>(), {0, 1}));
  y.backward(ones_like(y));
  EXPECT_TRUE(all_close(x.grad().to_vector<double>(), {0, 0, 0, -0.5, 0, 0.5}));
}

// The variance is above the range of f16.
TEST(Std, OfHalvesDoesNotOverflow) {
  const Tensor x = make_tensor({300, -300}, {2}, DType::f16).set_requires_grad(), y = bytetape::std(x, {}, false, 0);
  EXPECT_EQ(y.dtype(), DType::f16);
  EXPECT_EQ(y.item<double>(), 300);
  y.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector{0.5, -0.5}));
}

// PyTorch's: divided by max(0, n - correction).
TEST(Var, OfTooFewIsNotFinite) {
  EXPECT_TRUE(std::isnan(mean(empty({0, 3})).item<float>()));
  EXPECT_TRUE(std::isnan(var(random_tensor({1})).item<double>()));
  const Tensor x = make_tensor({1, 2, 4, 5, 5, 5}, {2, 3});
  for (const double correction : {3.0, 4.5}) {
    const auto y = var(x, {1}, false, correction).to_vector<double>();
    EXPECT_EQ(y[0], std::numeric_limits<double>::infinity()) << correction;
    EXPECT_TRUE(std::isnan(y[1])) << correction;
  }
}

TEST(Var, OfManyHalvesIsFinite) {
  const Tensor x = randn({100000});
  for (const DType t : {DType::f16, DType::bf16}) {
    const Tensor wide = to(to(x, t), DType::f64);
    EXPECT_NEAR(var(to(x, t)).item<double>(), var(wide).item<double>(), 0.01);
  }
}

TEST(Mean, OfManyHalvesHasAGradient) {
  const Tensor x = to(randn({70000}), DType::f16).set_requires_grad();
  mean(x).backward();
  EXPECT_NEAR(max(x.grad()).item<double>(), 1.0 / 70000, 1e-7);
}

TEST(Reduce, IntegersSumToI64) {
  const Tensor x = make_tensor({200, 100, 1, 2}, {2, 2}, DType::u8);
  EXPECT_EQ(sum(x, {0}).dtype(), DType::i64);
  EXPECT_EQ(sum(x).item<std::int64_t>(), 303);
  EXPECT_EQ(max(x).dtype(), DType::u8);
  EXPECT_EQ(max(x).item<int>(), 200);
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

TEST(SumTo, ReachesEveryShape) {
  const Tensor x = random_tensor({4, 2, 3});
  EXPECT_TRUE(sum_to(x, {4, 2, 3}).is_same(x));
  EXPECT_TRUE(all_close(sum_to(x, {2, 1}), reshape(sum(x, {0, 2}), {2, 1})));
  EXPECT_TRUE(all_close(sum_to(x, {}), sum(x)));
  EXPECT_EQ(sum_to(random_tensor({1, 1, 3}), {3}).shape(), (Shape{3}));
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

// As torch.var, which divides by 0 where the correction leaves nothing.
TEST(Var, IsInfiniteWhereTheCorrectionIsTooLarge) {
  const Tensor x = random_tensor({3});
  for (const double correction : {3.0, 5.0}) EXPECT_EQ(var(x, 0, false, correction).item<double>(), INFINITY);
}

using Values = std::vector<double>;
constexpr double inf = std::numeric_limits<double>::infinity();

// Division by x would give NaN, also in the second derivative.
TEST(Prod, HasItsGradientsWhereXIsZero) {
  for (const Values& values : {Values{2, 0, 3, -4, 5, 6}, {0, 0, 3, -4, 5, 6}, {0, 0, 0, 4, 5, 0}, {2, 3, 4, 5, 0, 0}})
    for (const Dims& dims : {Dims{}, Dims{0}, Dims{1}}) {
      const Tensor x = make_tensor(values, {2, 3}).set_requires_grad();
      const auto f = [&](const std::vector<Tensor>& v) { return prod(v[0], dims); };
      const GradcheckResult first = gradcheck(f, {x}), second = gradgradcheck(f, {x});
      EXPECT_TRUE(first) << first.message;
      EXPECT_TRUE(second) << second.message;
    }
  const Tensor x = make_tensor({2, 0, 3}, {3}).set_requires_grad();
  prod(x).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 6, 0}));
}

TEST(Prod, MultipliesIntegersInI64) {
  const Tensor x = make_tensor({200, 100, 3, 2}, {2, 2}, DType::u8);
  EXPECT_EQ(prod(x, {0}).dtype(), DType::i64);
  EXPECT_EQ(prod(x).item<std::int64_t>(), 120000);
  EXPECT_EQ(prod(make_tensor({-3, 5}, {2}, DType::i32)).item<std::int64_t>(), -15);
  EXPECT_EQ(prod(full({65}, 2, DType::i64)).item<std::int64_t>(), 0) << "wraps around";
  EXPECT_EQ(prod(from_vector(std::vector<bool>{true, false})).item<std::int64_t>(), 0);
  EXPECT_EQ(prod(empty({0, 2}, DType::i64), {0}).to_vector<int>(), (std::vector<int>{1, 1}));
}

TEST(Prod, LeavesTheRangeOfItsDTypeAndComesBack) {
  EXPECT_EQ(prod(make_tensor({1e30, 1e30, 1e-30, 1e-30}, {4}, DType::f32)).item<float>(), 1);
  EXPECT_EQ(prod(make_tensor({1024, 1024, 1024, 0x1p-20}, {4}, DType::f16)).item<float>(), 1024);
  EXPECT_TRUE(std::isnan(prod(make_tensor({0, inf}, {2})).item<double>()));
  EXPECT_EQ(prod(empty({0})).item<double>(), 1);
  EXPECT_TRUE(std::signbit(prod(make_tensor({-0.0}, {1})).item<double>()));
}

TEST(Prod, DoesNotDependOnWhereTheDataLies) {
  const Tensor x = exp(randn({1500}) * 0.01);
  std::vector<double> room(2048);
  const auto values = to(x, DType::f64).to_vector<double>();
  std::copy(values.begin(), values.end(), room.begin());
  const double expected = prod(from_blob(room.data(), {1500}, DType::f64)).item<double>();
  for (int shift = 1; shift < 16; ++shift) {
    std::copy(values.begin(), values.end(), room.begin() + shift);
    EXPECT_EQ(prod(from_blob(room.data() + shift, {1500}, DType::f64)).item<double>(), expected) << shift;
  }
}

TEST(LogSumExp, TakesInfinities) {
  const Tensor x = make_tensor({-inf, -inf, inf, 1, -inf, 2, 1e4, 1e4}, {4, 2}).set_requires_grad();
  const Tensor y = logsumexp(x, 1);
  EXPECT_TRUE(all_close(y.to_vector<double>(), {-inf, inf, 2, 1e4 + std::log(2)}));
  narrow(y, 0, 2, 2).backward(ones({2}, DType::f64));
  const Values g = x.grad().to_vector<double>();
  EXPECT_TRUE(std::isnan(g[2])) << "inf - inf, as in PyTorch";
  EXPECT_TRUE(all_close({g[0], g[1], g[3], g[4], g[5], g[6], g[7]}, {0, 0, 0, 0, 1, 0.5, 0.5}));
  const Tensor low = full({3}, -inf, DType::f64).set_requires_grad();
  logsumexp(low).backward();
  EXPECT_EQ(low.grad().to_vector<double>(), (Values{0, 0, 0}));
  EXPECT_EQ(logsumexp(empty({0})).item<double>(), -inf);
  EXPECT_TRUE(std::isnan(logsumexp(make_tensor({1, NAN}, {2})).item<double>()));
}

TEST(LogSumExp, OfHalvesIsComputedInF32) {
  const Tensor x = full({70000}, 1, DType::f16);
  EXPECT_EQ(logsumexp(x).dtype(), DType::f16);
  EXPECT_NEAR(logsumexp(x).item<double>(), 1 + std::log(70000), 1e-2);
}

TEST(AnyAll, TakeEveryDType) {
  for (const DType t :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const Tensor x = make_tensor({0, 0, 0, 1, 1, 1}, {3, 2}, t);
    EXPECT_EQ(any(x, 1).dtype(), DType::boolean) << t;
    EXPECT_EQ(any(x, 1).to_vector<bool>(), (std::vector<bool>{false, true, true})) << t;
    EXPECT_EQ(all(x, 1).to_vector<bool>(), (std::vector<bool>{false, false, true})) << t;
    EXPECT_TRUE(any(x).item<bool>());
    EXPECT_FALSE(all(x).item<bool>());
  }
  EXPECT_TRUE(any(make_tensor({NAN, 0}, {2})).item<bool>());
  EXPECT_FALSE(all(make_tensor({NAN, -0.0}, {2})).item<bool>());
  EXPECT_FALSE(any(empty({0})).item<bool>());
  EXPECT_EQ(all(empty({0, 2}, DType::boolean), 0).to_vector<bool>(), (std::vector<bool>{true, true}));
}

TEST(MaxWithIndices, GivesTheGradientToTheChosenElement) {
  const Tensor x = make_tensor({1, 7, 7, -2, 4, -2}, {2, 3}).set_requires_grad();
  const auto [values, indices] = max_with_indices(x, 1);
  EXPECT_EQ(values.to_vector<double>(), (Values{7, 4}));
  EXPECT_EQ(indices.to_vector<int>(), (std::vector<int>{1, 1}));
  EXPECT_FALSE(indices.requires_grad());
  values.backward(make_tensor({10, 3}, {2}));
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 10, 0, 0, 3, 0}));
  const ValuesAndIndices least = min_with_indices(x, -1, true);
  EXPECT_EQ(least.indices.shape(), (Shape{2, 1}));
  EXPECT_EQ(least.indices.to_vector<int>(), (std::vector<int>{0, 0}));
}

TEST(MaxWithIndices, ChoosesTheFirstNaN) {
  const Tensor x = make_tensor({1, NAN, 2, NAN}, {4});
  for (const auto& [values, indices] : {max_with_indices(x, 0), min_with_indices(x, 0)}) {
    EXPECT_TRUE(std::isnan(values.item<double>()));
    EXPECT_EQ(indices.item<int>(), 1);
  }
}

TEST(MaxWithIndices, TakesEveryDType) {
  for (const DType t :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const Tensor x = make_tensor({0, 1, 1, 0}, {2, 2}, t);
    const auto [values, indices] = max_with_indices(x, 1);
    EXPECT_EQ(values.dtype(), t);
    EXPECT_EQ(values.to_vector<int>(), (std::vector<int>{1, 1})) << t;
    EXPECT_EQ(indices.to_vector<int>(), (std::vector<int>{1, 0})) << t;
    EXPECT_EQ(min_with_indices(x, 0).values.to_vector<int>(), (std::vector<int>{0, 0})) << t;
    EXPECT_EQ(argmin(x, 0).to_vector<int>(), (std::vector<int>{0, 1})) << t;
  }
  EXPECT_EQ(max_with_indices(full({}, 7), 0).values.item<int>(), 7);
}

TEST(Argmin, IsTheFirstNaN) {
  EXPECT_EQ(argmin(make_tensor({1, NAN, -2, NAN}, {4}), 0).item<int>(), 1);
  EXPECT_EQ(argmin(make_tensor({3, -2, -2}, {3})).item<int>(), 1);
}

TEST(Argmax, IsTheFirstNaN) {
  const double nan = NAN;
  EXPECT_EQ(argmax(make_tensor({1, nan, 2, nan}, {4}), 0).item<int>(), 1);
  EXPECT_EQ(argmax(make_tensor({nan, nan, 2, 3}, {4}), 0).item<int>(), 0);
}

TEST(Reduce, ExtremesAreNaNWhereverTheNaNIs) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t n : {1, 3, 8, 17, 40, 67})
      for (std::int64_t at = 0; at < n; ++at) {
        const Tensor x = to(test::random_tensor({2, n}), dtype);
        fill_(narrow(narrow(x, 0, 1, 1), 1, at, 1), nan);
        for (const Tensor& y : {max(x, {1}), min(x, {1}), max(transpose(x, 0, 1), {0}), min(transpose(x, 0, 1), {0})}) {
          const std::vector<double> found = y.to_vector<double>();
          EXPECT_TRUE(std::isfinite(found[0]) && std::isnan(found[1])) << dtype << " " << n << " " << at;
        }
        EXPECT_TRUE(std::isnan(max(x).item<double>()) && std::isnan(min(x).item<double>()));
      }
}

}  // namespace
}  // namespace bytetape
