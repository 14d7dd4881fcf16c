#include "bytetape/autograd/ops/indexing.h"

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

namespace bytetape {
namespace {

using test::make_tensor;
using test::random_leaf;
using test::random_tensor;
using Indices = std::vector<std::int64_t>;

TEST(IndexSelect, AddsUpWhatCameSeveralTimes) {
  const Tensor x = random_leaf({4, 2});
  const Tensor y = index_select(x, 0, from_vector(Indices{2, 0, 2, 2}));
  y.backward(make_tensor({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{3, 4, 0, 0, 13, 16, 0, 0}));
}

// Sums of 16-bit gradients are made in f32: one by one they would stop at 256.
TEST(IndexSelect, AddsUpInF32) {
  const Tensor x = random_leaf({2, 3}, DType::bf16);
  const Tensor y = index_select(x, 0, zeros(1000, DType::i64));
  y.backward(ones_like(y));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1000, 1000, 1000, 0, 0, 0}));
}

TEST(IndexSelect, KeepsChannelsLast) {
  const Tensor x = channels_last(random_leaf({2, 3, 4, 5}));
  const Tensor y = index_select(x, 1, from_vector(Indices{2, 2, 0, 1}));
  EXPECT_EQ(y.strides(), channels_last_strides({2, 4, 4, 5}));
}

TEST(IndexSelect, TakesAnyDType) {
  for (const DType dtype : {DType::boolean, DType::u8, DType::i32, DType::i64, DType::f16}) {
    const Tensor x = to(from_vector(Indices{1, 0, 1}), dtype);
    const Tensor y = index_select(x, 0, from_vector(Indices{1, 2}));
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{0, 1}));
  }
}

// Also where nothing would be read.
TEST(IndexSelect, NamesTheFirstIndexThatIsNone) {
  const auto select = [](const Shape& shape) { index_select(zeros(shape), 0, from_vector(Indices{1, -2, 9})); };
  EXPECT_THROWS_SAYING(select({3, 2}), ValueError, "index_select: index -2 is not in [0, 3)");
  EXPECT_THROWS_SAYING(select({3, 0}), ValueError, "index_select: index -2 is not in [0, 3)");
}

TEST(Embedding, GivesNoGradientToThePadding) {
  Tensor weight = random_leaf({3, 2});
  const Tensor index = from_vector(Indices{2, 1, 1, 2, 0}, {5});
  for (const std::int64_t padding : {2, -1}) {
    weight.set_grad({});
    const Tensor y = embedding(index, weight, {.padding_idx = padding});
    EXPECT_EQ(y.to_vector<double>(), index_select(weight, 0, index).to_vector<double>());
    y.backward(make_tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {5, 2}));
    EXPECT_EQ(weight.grad().to_vector<double>(), (std::vector<double>{9, 10, 8, 10, 0, 0}));
  }
}

TEST(Embedding, DifferentiatesThePaddingAgain) {
  const Tensor weight = random_leaf({3, 2}), index = from_vector(Indices{2, 1, 1, 2}, {2, 2}),
               gy = random_leaf({2, 2, 2});
  const Tensor y = embedding(index, weight, {.padding_idx = 1});
  const Tensor g = grad({y}, {weight}, {.seeds = {gy}, .create_graph = true})[0];
  g.backward(make_tensor({1, 2, 3, 4, 5, 6}, {3, 2}));
  EXPECT_EQ(gy.grad().to_vector<double>(), (std::vector<double>{5, 6, 0, 0, 0, 0, 5, 6}));
}

// One row with all places is divided among threads.
TEST(Embedding, HasTheSameBitsOnAnyNumberOfThreads) {
  const Tensor gy = random_tensor({3000, 70}, DType::f32);
  Indices values(3000, 4);
  for (std::size_t i = 0; i < 300; ++i) values[i * 10] = static_cast<std::int64_t>(i % 7);
  const auto gradient_on = [&](int threads) {
    return test::with_threads(threads, [&] {
      Tensor weight = zeros({7, 70}).set_requires_grad();
      embedding(from_vector(values), weight).backward(gy);
      return weight.grad().to_vector<double>();
    });
  };
  const std::vector<double> one = gradient_on(1);
  EXPECT_EQ(one, gradient_on(2));
  EXPECT_EQ(one, gradient_on(5));
  const Tensor places = to(one_hot(from_vector(values), 7), DType::f32);
  EXPECT_TRUE(test::all_close(one, matmul(transpose(places, 0, 1), gy).to_vector<double>(), 1e-4, 1e-3));
}

TEST(IndexAdd, TakesNumbersOfEachDType) {
  for (const DType dtype : {DType::u8, DType::i32, DType::i64, DType::f16}) {
    const Tensor x = to(from_vector(Indices{1, 2, 3}), dtype), src = to(from_vector(Indices{250, 10, 1}), dtype);
    const Tensor y = index_add(x, 0, from_vector(Indices{0, 0, 2}), src);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{dtype == DType::u8 ? 5. : 261., 2, 4}));
  }
  const Tensor mask = zeros(3, DType::boolean);
  EXPECT_THROWS_SAYING(index_add(mask, 0, from_vector(Indices{0}), zeros(1, DType::boolean)), DTypeError,
                       "index_add: expected numbers, got bool(3,)");
}

TEST(IndexAdd, AddsUpInF32) {
  const Tensor x = full(2, 1, DType::bf16), src = ones(1000, DType::bf16);
  EXPECT_EQ(index_add(x, 0, zeros(1000, DType::i64), src).to_vector<double>(), (std::vector<double>{1000, 1}));
}

TEST(IndexCopy, TakesBoolAndTheLastOfRepeatedIndices) {
  const Tensor x = zeros(4, DType::boolean), src = to(from_vector(Indices{0, 1, 1, 0}), DType::boolean);
  const Tensor y = index_copy(x, 0, from_vector(Indices{1, 1, 2, 2}), src);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{0, 1, 0, 0}));
}

TEST(IndexCopy, ReadsSourcesFromTheTensorItWrites) {
  const Tensor x = make_tensor({1, 2, 3, 4}, {4});
  index_copy_(x, 0, from_vector(Indices{3, 2, 1, 0}), x);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{4, 3, 2, 1}));
  index_copy_(x, 0, from_vector(Indices{1, 2}), narrow(x, 0, 0, 2));
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{4, 4, 3, 1}));
}

TEST(IndexOps, WriteIntoAPartOfATensor) {
  const Tensor x = zeros({3, 4}), src = ones({2, 2});
  index_add_(narrow(x, 1, 1, 2), 0, from_vector(Indices{2, 2}), src);
  index_copy_(narrow(x, 1, 1, 2), 0, from_vector(Indices{0, 1}), src);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{0, 1, 1, 0, 0, 1, 1, 0, 0, 2, 2, 0}));
}

TEST(IndexOps, ChangeNothingIfAnIndexIsInvalid) {
  const Tensor x = zeros({3, 2}), src = ones({2, 2}), index = from_vector(Indices{0, 3});
  EXPECT_THROWS_SAYING(index_add_(x, 0, index, src), ValueError, "index_add_: index 3 is not in [0, 3)");
  EXPECT_THROWS_SAYING(index_copy_(x, 0, index, src), ValueError, "index_copy_: index 3 is not in [0, 3)");
  EXPECT_EQ(x.to_vector<double>(), std::vector<double>(6, 0));
  EXPECT_EQ(x.storage().version(), 0u);
  EXPECT_THROWS_SAYING(index_copy_(zeros({3, 0}), 0, index, zeros({2, 0})), ValueError,
                       "index_copy_: index 3 is not in [0, 3)");
}

TEST(OneHot, IsWholeNumbers) {
  const Tensor y = one_hot(from_vector(Indices{2, 0}), 3);
  EXPECT_EQ(y.dtype(), DType::i64);
  EXPECT_EQ(y.to_vector<std::int64_t>(), (Indices{0, 0, 1, 1, 0, 0}));
}

// Slices with up to 64 places are summed by one thread each, and larger ones by all threads.
TEST(IndexAdd, AddsEachPlaceOnce) {
  for (const std::int64_t many : {63, 64, 65, 200}) {
    Indices index(static_cast<std::size_t>(many), 1);
    for (const std::int64_t other : {0, 2, 2}) index.push_back(other);
    const Tensor src = random_tensor({std::ssize(index), 3}, DType::f64), x = random_tensor({3, 3}, DType::f64);
    const Tensor expected = x + cat({narrow(src, 0, many, 1), sum(narrow(src, 0, 0, many), {0}, true),
                                     sum(narrow(src, 0, many + 1, 2), {0}, true)},
                                    0);
    for (const int threads : {1, 2})
      EXPECT_TRUE(test::all_close(test::with_threads(threads, [&] { return index_add(x, 0, from_vector(index), src); }),
                                  expected))
          << many;
  }
}

}  // namespace
}  // namespace bytetape
