#include "bytetape/autograd/ops/compare.h"

#include <cmath>
#include <limits>

#include "bytetape/autograd/gradcheck.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::make_tensor;
using test::random_leaf;
using test::random_tensor;
using Flags = std::vector<bool>;

const DType numbers[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8};

TEST(Compare, TensorsInEveryDtype) {
  for (const DType t : numbers) {
    const Tensor a = make_tensor({1, 2, 3}, {3}, t), b = make_tensor({2, 2, 2}, {3}, t);
    EXPECT_EQ((a == b).to_vector<bool>(), (Flags{0, 1, 0})) << t;
    EXPECT_EQ((a != b).to_vector<bool>(), (Flags{1, 0, 1})) << t;
    EXPECT_EQ((a < b).to_vector<bool>(), (Flags{1, 0, 0})) << t;
    EXPECT_EQ((a <= b).to_vector<bool>(), (Flags{1, 1, 0})) << t;
    EXPECT_EQ((a > b).to_vector<bool>(), (Flags{0, 0, 1})) << t;
    EXPECT_EQ((a >= b).to_vector<bool>(), (Flags{0, 1, 1})) << t;
    EXPECT_EQ((a == b).dtype(), DType::boolean);
  }
}

TEST(Compare, WithANumberInEveryDtype) {
  for (const DType t : numbers) {
    const Tensor a = make_tensor({1, 2, 3}, {3}, t);
    EXPECT_EQ((a == 2).to_vector<bool>(), (Flags{0, 1, 0})) << t;
    EXPECT_EQ((a != 2).to_vector<bool>(), (Flags{1, 0, 1})) << t;
    EXPECT_EQ((a < 2).to_vector<bool>(), (Flags{1, 0, 0})) << t;
    EXPECT_EQ((a <= 2.0).to_vector<bool>(), (Flags{1, 1, 0})) << t;
    EXPECT_EQ((a > 2).to_vector<bool>(), (Flags{0, 0, 1})) << t;
    EXPECT_EQ((a >= 2).to_vector<bool>(), (Flags{0, 1, 1})) << t;
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

TEST(Compare, Broadcasts) {
  const Tensor a = make_tensor({1, 2}, {2, 1}), b = make_tensor({0, 1, 2}, {3});
  EXPECT_EQ((a > b).to_vector<bool>(), (Flags{1, 0, 0, 1, 1, 0}));
  EXPECT_EQ((a > b).shape(), (Shape{2, 3}));
  EXPECT_EQ((zeros({0, 3}, DType::f64) == b).shape(), (Shape{0, 3}));
  EXPECT_THROWS_SAYING(zeros({2}) == zeros({3}), ShapeError, "eq: f32(2,) on cpu and f32(3,) on cpu do not broadcast");
}

TEST(Compare, AgreesWithLoopsOverManyAndStrides) {
  const Tensor a = random_tensor({211, 307}, DType::f32), b = random_tensor({307, 211}, DType::f32);
  const auto flags = (a < transpose(b, 0, 1)).to_vector<bool>();
  const auto va = a.to_vector<float>(), vb = b.to_vector<float>();
  for (std::size_t i = 0; i < 211; ++i)
    for (std::size_t j = 0; j < 307; ++j) ASSERT_EQ(flags[i * 307 + j], va[i * 307 + j] < vb[j * 211 + i]);
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

TEST(Compare, RejectsWhatIsNotComparable) {
  EXPECT_THROWS_SAYING(zeros({2}, DType::i64) < 0.5, DTypeError, "lt: the number 0.5 is no i64 as in i64(2,) on cpu");
  EXPECT_THROW(zeros({2}, DType::u8) == 256, DTypeError);
  EXPECT_THROWS_SAYING(zeros({2}) == zeros({2}, DType::f64), DTypeError, "f32(2,) on cpu and f64(2,) on cpu");
  EXPECT_THROW(zeros({2}) == zeros({2}, DType::f32, Device::meta()), DeviceError);
  EXPECT_THROW(Tensor() == 1, ValueError);
}

TEST(Compare, IsNotDifferentiable) { EXPECT_FALSE((random_leaf({3}) > 0).requires_grad()); }

TEST(Where, ChoosesInEveryDtype) {
  const Tensor c = from_vector(Flags{1, 0, 1});
  for (const DType t : numbers) {
    const Tensor y = where(c, make_tensor({1, 2, 3}, {3}, t), make_tensor({4, 5, 6}, {3}, t));
    EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{1, 5, 3})) << t;
    EXPECT_EQ(y.dtype(), t);
  }
  EXPECT_EQ(where(c, c, c == false).to_vector<bool>(), (Flags{1, 1, 1}));
}

TEST(Where, DoesNotLetTheOtherSideThrough) {
  const Tensor y = where(from_vector(Flags{1, 0}), make_tensor({1, std::nan("")}, {2}),
                         make_tensor({std::numeric_limits<double>::infinity(), 2}, {2}));
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{1, 2}));
}

TEST(Where, BroadcastsAllThree) {
  const Tensor c = from_vector(Flags{1, 0}, {2, 1, 1}), a = random_tensor({3, 1}), b = random_tensor({4});
  const Tensor y = where(c, a, b);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 4}));
  EXPECT_TRUE(all_close(select(y, 0, 0), expand(a, {3, 4}), 0, 0));
  EXPECT_TRUE(all_close(select(y, 0, 1), expand(b, {3, 4}), 0, 0));
  EXPECT_EQ(where(c, full({}, 1), full({}, 2)).to_vector<int>(), (std::vector<int>{1, 2}));
  EXPECT_EQ(where(zeros({0, 1, 1}, DType::boolean), a, b).shape(), (Shape{0, 3, 4}));
}

TEST(Where, GradientsAreRight) {
  const struct {
    Shape condition, a, b;
  } cases[] = {{{2, 3}, {2, 3}, {2, 3}}, {{3}, {2, 1}, {}},     {{2, 1, 1}, {3, 1}, {4}},
               {{}, {2}, {3, 1}},        {{2, 0}, {1}, {2, 1}}, {{1}, {1, 1}, {1}}};
  for (const auto& [condition, a, b] : cases) {
    const Tensor c = random_tensor(condition) > 0;
    const auto fn = [&](const std::vector<Tensor>& x) { return where(c, x[0], x[1]); };
    const auto first = gradcheck(fn, {random_leaf(a), random_leaf(b)});
    EXPECT_TRUE(first) << condition << a << b << first.message;
    const auto second = gradgradcheck(fn, {random_leaf(a), random_leaf(b)});
    EXPECT_TRUE(second) << condition << a << b << second.message;
  }
}

TEST(Where, OnlyOneSideMayRequireGrad) {
  const Tensor c = from_vector(Flags{1, 0}), a = random_leaf({2});
  sum(where(c, zeros({2}, DType::f64), a)).backward();
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{0, 1}));
}

TEST(Where, RejectsBadInput) {
  const Tensor c = from_vector(Flags{1, 0}), x = zeros({2});
  EXPECT_THROWS_SAYING(where(x, x, x), DTypeError, "where: the condition must be bool, got f32(2,) on cpu");
  EXPECT_THROW(where(c, x, zeros({2}, DType::f64)), DTypeError);
  EXPECT_THROW(where(c, x, zeros({3})), ShapeError);
  EXPECT_THROW(where(c, zeros({2}, DType::f32, Device::meta()), x), DeviceError);
  EXPECT_THROW(where(Tensor(), x, x), ValueError);
}

}  // namespace
}  // namespace bytetape
