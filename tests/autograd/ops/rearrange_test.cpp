#include "bytetape/autograd/ops/rearrange.h"

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

TEST(Rearrange, TakesAnyDType) {
  for (const DType dtype : {DType::boolean, DType::u8, DType::i32, DType::f16}) {
    const Tensor x = to(from_vector(std::vector<std::int64_t>{1, 0, 0, 1, 1, 1}, {2, 3}), dtype);
    EXPECT_EQ(flip(x, 1).to_vector<double>(), (std::vector<double>{0, 0, 1, 1, 1, 1}));
    EXPECT_EQ(roll(x, 1, 1).to_vector<double>(), (std::vector<double>{0, 1, 0, 1, 1, 1}));
    EXPECT_EQ(repeat(x, {1, 2}).to_vector<double>(), (std::vector<double>{1, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1}));
    EXPECT_EQ(tril(x).to_vector<double>(), (std::vector<double>{1, 0, 0, 1, 1, 0}));
    EXPECT_EQ(triu(x).to_vector<double>(), (std::vector<double>{1, 0, 0, 0, 1, 1}));
  }
}

// A copy along 16 axes, of which a tensor holds 8.
TEST(Repeat, RepeatsEachOfEightDims) {
  const Shape twos = Dims::filled(8, 2);
  const Tensor x = test::random_leaf(twos), y = repeat(x, twos);
  EXPECT_EQ(y.shape(), Dims::filled(8, 4));
  const Tensor corner =
      index(y, {Slice(2), Slice(0, 2), Slice(2), Slice(2), Slice(0, 2), Slice(2), Slice(2), Slice(2)});
  EXPECT_EQ(corner.to_vector<double>(), x.to_vector<double>());
  y.backward(ones_like(y));
  EXPECT_EQ(x.grad().to_vector<double>(), std::vector<double>(256, 256));
}

TEST(Repeat, RejectsSizesThatOverflow) {
  EXPECT_THROWS_SAYING(repeat(zeros(4), std::int64_t{1} << 62), ShapeError, "repeat: too many repeats");
}

TEST(Roll, TakesAnyShift) {
  const Tensor x = arange(5);
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(roll(x, 12).to_vector<double>(), (std::vector<double>{3, 4, 0, 1, 2}));
  EXPECT_EQ(roll(x, least).to_vector<double>(), roll(x, least % 5).to_vector<double>());
  EXPECT_EQ(roll(zeros({}), 3, 0).shape(), Shape{});
}

}  // namespace
}  // namespace bytetape
