#include "bytetape/autograd/ops/gather.h"

#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

namespace bytetape {
namespace {

using test::make_tensor;
using test::random_leaf;
using Indices = std::vector<std::int64_t>;
using Values = std::vector<double>;

TEST(Gather, TakesAnyDType) {
  for (const DType dtype : {DType::boolean, DType::u8, DType::i32, DType::i64, DType::f16}) {
    const Tensor x = to(from_vector(Indices{1, 0, 1, 0}, {2, 2}), dtype);
    const Tensor y = gather(x, 1, from_vector(Indices{1, 0, 0}, {1, 3}));
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to_vector<double>(), (Values{0, 1, 1}));
  }
}

TEST(Gather, TakesScalars) {
  const Tensor x = make_tensor({5}, {}), index = zeros({}, DType::i64);
  EXPECT_EQ(gather(x, 0, index).to_vector<double>(), Values{5});
  EXPECT_EQ(gather(x, -1, index).shape(), Shape{});
  EXPECT_EQ(scatter(x, 0, index, 2).to_vector<double>(), Values{2});
  EXPECT_EQ(scatter_add(x, 0, index, x).to_vector<double>(), Values{10});
  const Tensor leaf = random_leaf({}), src = random_leaf({});
  scatter(leaf, 0, index, src).backward();
  EXPECT_EQ(leaf.grad().item<double>(), 0);
  EXPECT_EQ(src.grad().item<double>(), 1);
}

// In row-major order, also if an invalid index comes first in memory.
TEST(Gather, NamesTheFirstInvalidIndex) {
  const Tensor index = transpose(from_vector(Indices{0, 7, 8, 0}, {2, 2}), 0, 1);
  EXPECT_THROWS_SAYING(gather(zeros({2, 2}), 0, index), ValueError, "gather: index 8 is not in [0, 2)");
  EXPECT_THROWS_SAYING(gather(zeros({0, 2}), 0, index), ValueError, "gather: index 0 is not in [0, 0)");
}

// Sums of 16-bit gradients are made in f32: one by one they would stop at 256.
TEST(Gather, AddsUpInF32) {
  const Tensor x = random_leaf({2, 3}, DType::bf16);
  const Tensor y = gather(x, 1, zeros({2, 1000}, DType::i64));
  y.backward(ones_like(y));
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{1000, 0, 0, 1000, 0, 0}));
}

TEST(Scatter, GivesTheLastOfRepeatedIndicesTheGradient) {
  const Tensor x = random_leaf({3}), src = random_leaf({4});
  const Tensor y = scatter(x, 0, from_vector(Indices{1, 2, 1, 1}), src);
  EXPECT_EQ(y.to_vector<double>()[1], src.to_vector<double>()[3]);
  y.backward(make_tensor({1, 2, 3}, {3}));
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{1, 0, 0}));
  EXPECT_EQ(src.grad().to_vector<double>(), (Values{0, 3, 0, 2}));
}

TEST(Scatter, TakesAnyDType) {
  const Tensor index = from_vector(Indices{2, 0});
  for (const DType dtype : {DType::boolean, DType::u8, DType::i32, DType::i64, DType::bf16}) {
    const Tensor y = scatter(zeros(3, dtype), 0, index, 1);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to_vector<double>(), (Values{1, 0, 1}));
    EXPECT_EQ(scatter(y, 0, narrow(index, 0, 0, 1), zeros(3, dtype)).to_vector<double>(), (Values{1, 0, 0}));
  }
}

TEST(ScatterAdd, WrapsIntegersAround) {
  const Tensor x = full(2, 250, DType::u8), src = full(3, 5, DType::u8);
  EXPECT_EQ(scatter_add(x, 0, from_vector(Indices{1, 1, 1}), src).to_vector<double>(), (Values{250, 9}));
  EXPECT_THROWS_SAYING(scatter_add(to(x, DType::boolean), 0, zeros(1, DType::i64), src), DTypeError,
                       "scatter_add: expected numbers, got bool(2,)");
}

// Threads that sum 16-bit lines at the same time have sums of their own.
TEST(ScatterAdd, OfLongLinesIsTheSameOnAnyNumberOfThreads) {
  constexpr std::int64_t lines = 64, length = 16384, places = 32;  // each place gets 512 elements of a line
  const Tensor index = expand(arange(length) - arange(length) / places * places, {lines, length});
  const Tensor each = to(view(arange(lines) - arange(lines) / 4 * 4 + 1, {lines, 1}), DType::bf16);
  const Tensor src = contiguous(expand(each, {lines, length})), expected = expand(each * 512, {lines, places});
  for (const int threads : {1, 2, 4}) {
    const Tensor y = test::with_threads(threads, [&] {
      return scatter_add(zeros({lines, places}, DType::bf16), 1, index, src);
    });
    EXPECT_TRUE(test::all_close(y, expected, 0, 0)) << threads << " threads";
  }
}

TEST(ScatterAdd, UsesTheWidestDTypeUnderAutocast) {
  const Autocast autocast(DType::bf16);
  const Tensor index = zeros(1, DType::i64);
  EXPECT_EQ(scatter_add(ones(2, DType::bf16), 0, index, ones(1)).dtype(), DType::f32);
}

TEST(ScatterOps, WriteIntoAPartOfATensor) {
  const Tensor x = zeros({3, 4}), part = narrow(x, 1, 1, 2), index = from_vector(Indices{1, 1, 0, 1}, {2, 2});
  scatter_add_(part, 1, index, ones({2, 2}));
  scatter_(part, 0, index, 5);
  EXPECT_EQ(x.to_vector<double>(), (Values{0, 5, 2, 0, 0, 5, 5, 0, 0, 0, 0, 0}));
}

TEST(ScatterOps, ReadInputsFromTheTensorTheyWrite) {
  const Tensor x = from_vector(Indices{2, 0, 1});
  scatter_(x, 0, x, x);
  EXPECT_EQ(x.to_vector<std::int64_t>(), (Indices{0, 1, 2}));
  scatter_add_(x, 0, from_vector(Indices{1, 2}), narrow(x, 0, 1, 2));
  EXPECT_EQ(x.to_vector<std::int64_t>(), (Indices{0, 2, 4}));
}

TEST(ScatterOps, ChangeNothingIfAnIndexIsInvalid) {
  const Tensor x = zeros({3, 2}), index = from_vector(Indices{0, 1, 3, -1}, {2, 2});
  EXPECT_THROWS_SAYING(scatter_(x, 0, index, 1), ValueError, "scatter_: index 3 is not in [0, 3)");
  EXPECT_THROWS_SAYING(scatter_add_(x, 0, index, ones({2, 2})), ValueError, "scatter_add_: index 3 is not in [0, 3)");
  EXPECT_EQ(x.to_vector<double>(), Values(6, 0));
  EXPECT_EQ(x.storage().version(), 0u);
}

}  // namespace
}  // namespace bytetape
