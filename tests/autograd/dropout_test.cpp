#include "bytetape/autograd/ops/dropout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/gradcheck.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/philox.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;
using test::random_tensor;
using Values = std::vector<double>;

TEST(Dropout, FollowsTheStream) {
  for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    Generator g(3);
    g.take(20);
    const PhiloxState s = g.state();
    const Tensor x = random_tensor({7, 99}, t);
    const Values before = x.to_vector<double>(), after = dropout(x, 0.375, true, g).to_vector<double>();
    for (std::size_t i = 0; i < before.size(); ++i) {
      const bool keep = unit_float(philox(s.seed, s.offset + i / 4)[i % 4]) >= 0.375;
      ASSERT_NEAR(after[i], keep ? before[i] * 1.6 : 0, std::abs(before[i]) * 0.01) << t << i;
    }
    EXPECT_EQ(g.state().offset, s.offset + (7 * 99 + 3) / 4);
  }
}

TEST(Dropout, DropsTheShareAskedForAndKeepsTheMean) {
  for (const double p : {0.1, 0.25, 0.5, 0.9}) {
    const Values y = dropout(ones({200000}), p).to_vector<double>();
    const auto dropped = static_cast<double>(std::count(y.begin(), y.end(), 0));
    EXPECT_NEAR(dropped / 2e5, p, 0.006) << p;
    for (const double v : y) ASSERT_TRUE(v == 0 || std::abs(v * (1 - p) - 1) < 1e-6) << v;
  }
}

TEST(Dropout, ItsMaskDependsNeitherOnStridesNorOnThreads) {
  const Tensor x = random_tensor({5, 30, 14, 17}, DType::f32);
  const auto drop = [](const Tensor& v) {
    Generator g(8);
    return dropout(v, 0.4, true, g);
  };
  const Values expected = test::with_threads(1, [&] { return drop(x).to_vector<double>(); });
  for (const int threads : {1, 2, 3})
    test::with_threads(threads, [&] {
      EXPECT_TRUE(drop(x).to_vector<double>() == expected);
      const Tensor y = drop(channels_last(x));
      EXPECT_TRUE(y.to_vector<double>() == expected);
      EXPECT_EQ(y.strides(), channels_last(x).strides());
      EXPECT_TRUE(drop(contiguous(transpose(x, 0, 3))).to_vector<double>() ==
                  drop(transpose(x, 0, 3)).to_vector<double>());
    });
}

TEST(Dropout, TwoCallsDropOtherElements) {
  const Tensor x = ones({1000});
  EXPECT_NE(dropout(x, 0.5).to_vector<double>(), dropout(x, 0.5).to_vector<double>());
}

TEST(Dropout, IsTheInputItselfWhereNothingIsDropped) {
  const Tensor x = random_tensor({4});
  Generator g(1);
  EXPECT_TRUE(dropout(x, 0.5, false, g).is_same(x));
  EXPECT_TRUE(dropout(x, 0, true, g).is_same(x));
  EXPECT_EQ(g.state().offset, 0u);
}

TEST(Dropout, OfEverythingIsZero) {
  const Tensor x = full({9}, std::numeric_limits<double>::infinity(), DType::f64).set_requires_grad();
  const Tensor y = dropout(x, 1);
  EXPECT_EQ(y.to_vector<double>(), Values(9, 0));
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), Values(9, 0));
}

TEST(Dropout, GradientsAreRight) {
  const auto fn = [](const std::vector<Tensor>& x) {
    Generator g(5);
    return dropout(x[0], 0.3, true, g);
  };
  for (const Shape& shape : {Shape{}, {1}, {7}, {3, 5}, {2, 0}, {2, 3, 2, 2}}) {
    const auto first = gradcheck(fn, {random_leaf(shape)});
    EXPECT_TRUE(first) << shape << first.message;
    const auto second = gradgradcheck(fn, {random_leaf(shape)});
    EXPECT_TRUE(second) << shape << second.message;
  }
}

TEST(Dropout, BackwardDropsTheSameElementsWhateverTheGradientsStrides) {
  const Tensor x = channels_last(random_tensor({2, 8, 5, 5})).set_requires_grad();
  const Tensor y = dropout(x, 0.5), gy = ones({2, 8, 5, 5}, DType::f64);
  const Tensor gx = grad({y}, {x}, {.seeds = {gy}})[0];
  EXPECT_TRUE(all_close(gx * x.detach(), y.detach()));
}

TEST(Dropout, KeepsNoMask) {
  const Tensor x = random_leaf({1000});
  const std::size_t before = test::allocated();
  const Tensor y = dropout(x, 0.5);
  EXPECT_EQ(test::allocated() - before, test::rounded(8000));
  EXPECT_EQ(test::held_as(memory::Role::saved), 0u);
}

TEST(Dropout, OnMetaLeavesTheStreamAlone) {
  Generator g(1);
  const Tensor x = empty({4}, DType::f32, Device::meta()).set_requires_grad();
  const Tensor y = dropout(x, 0.5, true, g);
  y.backward(empty_like(y));
  EXPECT_EQ(describe(x.grad()), "f32(4,) on meta");
  EXPECT_EQ(g.state().offset, 0u);
}

TEST(Dropout, RejectsBadInput) {
  EXPECT_THROWS_SAYING(dropout(zeros({2}), 1.5), ValueError, "dropout: expected a probability, got p = 1.5");
  EXPECT_THROW(dropout(zeros({2}), -0.1), ValueError);
  EXPECT_THROW(dropout(zeros({2}), std::nan("")), ValueError);
  EXPECT_THROW(dropout(zeros({2}, DType::i64), 0.5), DTypeError);
  EXPECT_THROW(dropout(Tensor(), 0.5), ValueError);
}

}  // namespace
}  // namespace bytetape
