#include "bytetape/autograd/ops/dropout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/philox.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_leaf;
using test::random_tensor;
using Values = std::vector<double>;

TEST(Dropout, TakesTheNextNumbersOfTheGeneratorThatItIsGiven) {
  Generator g(3);
  g.take(20);
  const PhiloxState s = g.state();
  const Values y = dropout(ones({7, 99}), 0.375, true, g).to_vector<double>();
  for (std::size_t i = 0; i < y.size(); ++i)
    ASSERT_EQ(y[i] != 0, unit_float(philox(s.seed, s.offset + i / 4)[i % 4]) >= 0.375) << i;
  EXPECT_EQ(g.state().offset, s.offset + (7 * 99 + 3) / 4);
}

TEST(Dropout, KeepsTheMemoryLayout) {
  const Tensor x = channels_last(random_tensor({2, 3, 4, 5}));
  EXPECT_EQ(dropout(x, 0.4).strides(), x.strides());
}

TEST(Dropout, DropsTheSameElementsInEveryLayout) {
  for (const Shape& shape : {Shape{2, 70, 3, 8}, {1, 64, 2, 4}, {3, 5, 1, 12}, {2, 130, 3, 6}})
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const Tensor x = random_tensor(shape, dtype), turned = channels_last(x);
      Generator one(3), other(3);
      const Values expected = dropout(x, 0.3, true, one).to_vector<double>();
      EXPECT_EQ(dropout(turned, 0.3, true, other).to_vector<double>(), expected) << shape << dtype;
    }
}

TEST(Dropout, IsTheSameInRowMajorOrder) {
  for (const Shape& shape : {Shape{2, 70, 3, 8}, {3, 5, 1, 12}, {2, 130, 3, 6}, {4, 9, 7, 5}})
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      SCOPED_TRACE(detail::concat(shape, dtype));
      const Tensor x = random_tensor(shape, dtype), turned = channels_last(x).detach().set_requires_grad();
      Generator one(3), other(3);
      const Tensor kept = dropout(x.detach().set_requires_grad(), 0.3, true, one),
                   y = detail::row_major_dropout(turned, 0.3, true, other);
      EXPECT_TRUE(y.is_contiguous());
      EXPECT_EQ(y.to_vector<double>(), kept.to_vector<double>());
      const Tensor seed = random_tensor(shape, dtype), gx = grad({y}, {turned}, {.seeds = {seed}})[0];
      EXPECT_EQ(gx.strides(), turned.strides()) << "as the op that made x needs it";
      Generator again(3);
      EXPECT_EQ(gx.to_vector<double>(), dropout(seed, 0.3, true, again).to_vector<double>());
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

TEST(Dropout, KeepsNoMask) {
  const Tensor x = random_leaf({1000});
  const std::size_t before = test::allocated();
  const Tensor y = dropout(x, 0.5);
  EXPECT_EQ(test::allocated() - before, test::rounded(8000));
  EXPECT_EQ(test::held_as(memory::Role::saved), 0u);
}

TEST(Dropout, OnMetaLeavesTheGeneratorAlone) {
  Generator g(1);
  dropout(empty({4}, DType::f32, Device::meta()), 0.5, true, g);
  EXPECT_EQ(g.state().offset, 0u);
}

// So that a step that got no memory draws the same numbers again.
TEST(Dropout, WithoutMemoryLeavesTheGeneratorAlone) {
  Generator g(1);
  constexpr std::size_t half = std::size_t{6} << 20;  // of the bytes of x
  const Tensor x = zeros({2, 16, 256, 384}), turned = transpose(zeros({2, 16, 384, 256}), 2, 3);
  const std::size_t limit = memory::snapshot().limit;
  memory::empty_cache();
  const std::size_t reserved = test::statistics().reserved.current;
  memory::set_limit(reserved + half);  // too little for the result
  EXPECT_THROW(dropout(x, 0.5, true, g), OutOfMemory);
  memory::set_limit(reserved + 3 * half);  // too little for the scratch beside it
  EXPECT_THROW(dropout(turned, 0.5, true, g), OutOfMemory);
  memory::set_limit(limit);
  EXPECT_EQ(g.state().offset, 0u);
}

TEST(Dropout, OfAViewLeftBehindTakesNoNumbers) {
  Generator g(1);
  const Tensor h = random_leaf({4}) * 1, v = view(h, 4);
  relu_(h);
  EXPECT_THROW(dropout(v, 0.5, true, g), AutogradError);
  EXPECT_EQ(g.state().offset, 0u);
}

}  // namespace
}  // namespace bytetape
