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

TEST(Logic, TakesEveryDType) {
  for (const DType t :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const Tensor a = make_tensor({0, 0, 1, 1}, {4}, t), b = make_tensor({0, 1, 0, 1}, {4}, t);
    EXPECT_EQ(logical_and(a, b).to_vector<bool>(), (Flags{0, 0, 0, 1})) << t;
    EXPECT_EQ(logical_or(a, b).to_vector<bool>(), (Flags{0, 1, 1, 1})) << t;
    EXPECT_EQ(logical_xor(a, b).to_vector<bool>(), (Flags{0, 1, 1, 0})) << t;
    EXPECT_EQ(logical_not(a).to_vector<bool>(), (Flags{1, 1, 0, 0})) << t;
    EXPECT_EQ(logical_and(a, 1).dtype(), DType::boolean);
  }
  // Not the bits: 1 and 2 have none in common, but both are true.
  EXPECT_TRUE(logical_and(full({}, 1, DType::i32), full({}, 2, DType::i32)).item<bool>());
}

TEST(Logic, HasOperatorsForBoolsAlone) {
  const Tensor x = arange(4), a = x > 0, b = x < 3;
  EXPECT_EQ((a & b).to_vector<bool>(), (Flags{0, 1, 1, 0}));
  EXPECT_EQ((a | b).to_vector<bool>(), (Flags{1, 1, 1, 1}));
  EXPECT_EQ((a ^ b).to_vector<bool>(), (Flags{1, 0, 0, 1}));
  EXPECT_EQ((~a).to_vector<bool>(), (Flags{1, 0, 0, 0}));
  EXPECT_THROWS_SAYING(a & x, DTypeError, "operator&: expected a bool tensor, got i64(4,)");
  EXPECT_THROWS_SAYING(x | a, DTypeError, "operator|: expected a bool tensor");
  EXPECT_THROWS_SAYING(x ^ x, DTypeError, "operator^: expected a bool tensor");
  EXPECT_THROWS_SAYING(~x, DTypeError, "operator~: expected a bool tensor");
  EXPECT_THROWS_SAYING(~Tensor(), ValueError, "operator~: the input is an undefined tensor");
}

TEST(Classes, OfIntegersAreFinite) {
  for (const DType t : {DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const Tensor x = make_tensor({0, 1}, {2}, t);
    EXPECT_EQ(isnan(x).to_vector<bool>(), (Flags{0, 0})) << t;
    EXPECT_EQ(isinf(x).to_vector<bool>(), (Flags{0, 0})) << t;
    EXPECT_EQ(isfinite(x).to_vector<bool>(), (Flags{1, 1})) << t;
  }
}

TEST(MaskedFill, HidesWhatItReplaces) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = make_tensor({std::nan(""), 2, inf}, {3}).set_requires_grad();
  const Tensor y = masked_fill(x, from_vector(Flags{1, 0, 1}), -inf);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{-inf, 2, -inf}));
  y.backward(make_tensor({std::nan(""), 3, inf}, {3}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 3, 0}));
}

TEST(MaskedFill, FillsIntegersAndBools) {
  const Tensor mask = from_vector(Flags{1, 0});
  const Tensor x = from_vector<std::int64_t>({1, 2}), flags = from_vector(Flags{0, 1});
  EXPECT_EQ(masked_fill(x, mask, (std::int64_t{1} << 60) + 1).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{(std::int64_t{1} << 60) + 1, 2}));
  EXPECT_TRUE(masked_fill_(x, mask, full({}, 7, DType::i64)).is_same(x));
  EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{7, 2}));
  EXPECT_EQ(masked_fill(flags, mask, true).to_vector<bool>(), (Flags{1, 1}));
  EXPECT_THROWS_SAYING(masked_fill_(flags, flags.alias({1}, {1}, 1), true), ValueError, "lies over it in memory");
}

TEST(Where, DoesNotLetTheOtherSideThrough) {
  const Tensor y = where(from_vector(Flags{1, 0}), make_tensor({1, std::nan("")}, {2}),
                         make_tensor({std::numeric_limits<double>::infinity(), 2}, {2}));
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace bytetape
