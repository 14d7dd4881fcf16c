#include "bytetape/autograd/ops/indexing.h"

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

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

TEST(OneHot, IsWholeNumbers) {
  const Tensor y = one_hot(from_vector(Indices{2, 0}), 3);
  EXPECT_EQ(y.dtype(), DType::i64);
  EXPECT_EQ(y.to_vector<std::int64_t>(), (Indices{0, 0, 1, 1, 0, 0}));
}

}  // namespace
}  // namespace bytetape
