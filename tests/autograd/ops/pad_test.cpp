#include "bytetape/autograd/ops/pad.h"

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_tensor;

TEST(Pad, IsAViewWhereNothingIsAdded) {
  const Tensor x = random_tensor({3, 4});
  const std::size_t before = test::allocated();
  const Tensor y = pad(x, {-1, 0, 0, -2});
  EXPECT_EQ(y.shape(), (Shape{1, 3}));
  EXPECT_TRUE(pad(x, {}).is_same(x));
  EXPECT_EQ(test::allocated(), before);
}

TEST(Pad, TakesOffAtEitherEndInEachMode) {
  const Tensor x = random_tensor({3, 9});
  for (const PadMode mode : {PadMode::constant, PadMode::reflect, PadMode::replicate})
    for (const auto& [before, after] : {std::pair{-2, 0}, {0, -3}, {-1, -4}, {2, -3}, {-3, 2}}) {
      const Tensor padded = pad(x, {std::max(before, 0), std::max(after, 0)}, mode),
                   expected = narrow(padded, 1, std::max(-before, 0), 9 + before + after);
      EXPECT_EQ(pad(x, {before, after}, mode).to_vector<double>(), expected.to_vector<double>());
    }
}

TEST(Pad, RefusesNumbersWhoseSumsOverflow) {
  const Tensor x = random_tensor({3});
  for (const std::int64_t far : {std::int64_t{INT64_MIN}, std::int64_t{INT64_MAX}})
    for (const std::int64_t other : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, far}) {
      EXPECT_THROWS_SAYING(pad(x, {far, other}), ShapeError, "padding must not crop more than dim");
      EXPECT_THROWS_SAYING(pad(x, {other, far}), ShapeError, "padding must not crop more than dim");
    }
}

TEST(Pad, KeepsChannelsLast) {
  const Tensor x = channels_last(random_tensor({2, 3, 4, 5}));
  for (const PadMode mode : {PadMode::constant, PadMode::reflect, PadMode::replicate})
    EXPECT_EQ(pad(x, {1, 1, 2, 2}, mode).strides(), channels_last_strides({2, 3, 8, 7}));
}

TEST(Pad, TakesAnyDType) {
  for (const DType dtype : {DType::boolean, DType::u8, DType::i32, DType::i64, DType::bf16})
    EXPECT_EQ(pad(ones({1}, dtype), {2, 1}, PadMode::constant, 1).to_vector<double>(), std::vector<double>(4, 1));
}

}  // namespace
}  // namespace bytetape
