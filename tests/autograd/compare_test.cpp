#include "bytetape/autograd/ops/compare.h"

#include <cmath>
#include <limits>

#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::make_tensor;
using Flags = std::vector<bool>;

const DType integers[] = {DType::i64, DType::i32, DType::u8};

TEST(Compare, TakesIntegers) {
  for (const DType t : integers) {
    const Tensor a = make_tensor({1, 2, 3}, {3}, t), twos = make_tensor({2, 2, 2}, {3}, t);
    for (const Operand& two : {Operand(twos), Operand(2), Operand(2.0)}) {
      EXPECT_EQ((a == two).to_vector<bool>(), (Flags{0, 1, 0})) << t;
      EXPECT_EQ((a != two).to_vector<bool>(), (Flags{1, 0, 1})) << t;
      EXPECT_EQ((a < two).to_vector<bool>(), (Flags{1, 0, 0})) << t;
      EXPECT_EQ((a <= two).to_vector<bool>(), (Flags{1, 1, 0})) << t;
      EXPECT_EQ((a > two).to_vector<bool>(), (Flags{0, 0, 1})) << t;
      EXPECT_EQ((a >= two).to_vector<bool>(), (Flags{0, 1, 1})) << t;
    }
  }
}

TEST(Compare, KeepsLargeIntegersExact) {
  const Tensor a = full({}, (std::int64_t{1} << 53) + 1, DType::i64);
  EXPECT_TRUE((a > (std::int64_t{1} << 53)).item<bool>());
}

TEST(Compare, NaNIsUnequalToItself) {
  const Tensor x = make_tensor({std::nan(""), 1}, {2});
  EXPECT_EQ((x == x).to_vector<bool>(), (Flags{0, 1}));
  EXPECT_EQ((x != x).to_vector<bool>(), (Flags{1, 0}));
  EXPECT_EQ((x <= x).to_vector<bool>(), (Flags{0, 1}));
}

TEST(Compare, BoolsAreEqualOrNot) {
  const Tensor a = from_vector(Flags{0, 1, 1}), b = from_vector(Flags{0, 0, 1});
  EXPECT_EQ((a == b).to_vector<bool>(), (Flags{1, 0, 1}));
  EXPECT_EQ((a != b).to_vector<bool>(), (Flags{0, 1, 0}));
  EXPECT_EQ((a == false).to_vector<bool>(), (Flags{1, 0, 0}));
  EXPECT_THROWS_SAYING(a < b, DTypeError, "lt: expected numbers");
  EXPECT_THROW(a >= true, DTypeError);
  EXPECT_THROW(a == 2, DTypeError);
}

TEST(Where, DoesNotLetTheOtherSideThrough) {
  const Tensor y = where(from_vector(Flags{1, 0}), make_tensor({1, std::nan("")}, {2}),
                         make_tensor({std::numeric_limits<double>::infinity(), 2}, {2}));
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace bytetape
