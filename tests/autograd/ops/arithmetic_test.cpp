#include "bytetape/autograd/ops/arithmetic.h"

#include <limits>
#include <type_traits>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::make_tensor;
using test::random_leaf;
using test::random_tensor;
using Values = std::vector<double>;

constexpr double inf = std::numeric_limits<double>::infinity();

TEST(Arithmetic, SignsInPlaceGiveTheTensorThatTheyWrote) {
  const Tensor x = make_tensor({4, 6}, {2});
  EXPECT_TRUE((x += 2).is_same(x));
  EXPECT_TRUE((x -= 1).is_same(x));
  EXPECT_TRUE((x *= x).is_same(x));
  EXPECT_TRUE((x /= 7).is_same(x));
  EXPECT_TRUE(all_close(x.to_vector<double>(), {25. / 7, 7}));
}

TEST(Arithmetic, SignsInPlaceTakeTemporaries) {
  const Tensor x = make_tensor({1, 2, 3}, {3}).set_requires_grad();
  sum(x * x).backward();
  x.grad() *= 0.5;
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{1, 2, 3}));
  const Tensor y = x.detach();
  narrow(y, 0, 0, 2) += 1;
  EXPECT_EQ(y.to_vector<double>(), (Values{2, 3, 3}));
}

TEST(Arithmetic, InPlaceWithItselfIsDifferentiatedAndLeaksNothing) {
  const std::size_t before = test::allocated();
  {
    Tensor x = random_leaf({3}), w = random_leaf({3});
    Tensor y = x * 1, z = w * 1;
    mul_(y, y);
    div_(z, z);
    sum(y + z).backward();
    EXPECT_TRUE(all_close(x.grad(), (2 * x).detach()));
    EXPECT_TRUE(all_close(w.grad(), zeros({3}, DType::f64)));
    Tensor u = x * 1;
    u *= u.detach();
    x.set_grad({});
    sum(u).backward();
    EXPECT_TRUE(all_close(x.grad(), x.detach()));
    Tensor dropped = x * 1;
    mul_(dropped, dropped);
  }
  EXPECT_EQ(test::allocated(), before);
}

// The result has the format of the image that is channels-last, whichever operand that is.
TEST(Arithmetic, KeepsTheFormatOfAChannelsLastOperand) {
  const Tensor rows = random_tensor({2, 3, 4, 5}), image = channels_last(random_tensor({2, 3, 4, 5}));
  const auto is_image = [](const Tensor& y) { return is_channels_last(y.shape(), y.strides()); };
  for (const auto& [a, b] : {std::pair(rows, image), {image, rows}, {image, image}}) {
    EXPECT_TRUE(is_image(a + b));
    EXPECT_TRUE(is_image(a < b));
    EXPECT_TRUE(is_image(maximum(a, b)));
  }
  EXPECT_TRUE(is_image(image * 2));
  EXPECT_TRUE(is_image(2 * image));
  EXPECT_TRUE(is_image(image - random_tensor({3, 1, 1})));
  EXPECT_TRUE(is_image(random_tensor({5}) / image));
  EXPECT_TRUE((rows + rows).is_contiguous());
}

// A number is as exact as the kernel computes, which is f32 for 16-bit floats, as in PyTorch.
TEST(Arithmetic, DoesNotRoundNumbersToSixteenBits) {
  const auto only = [](const Tensor& x) { return to(x, DType::f64).item<double>(); };
  const Tensor small = full({}, 0.001, DType::f16), large = full({}, 60000, DType::f16);
  EXPECT_NEAR(only(small * 1e6), 1000, 1);
  EXPECT_NEAR(only(1e6 * small), 1000, 1);
  EXPECT_NEAR(only(small * 65536.0), 65.5, 0.1);
  EXPECT_NEAR(only(large / 100000.0), 0.6, 1e-3);
  EXPECT_NEAR(only(1e6 / large), 16.67, 0.02);
  const Tensor many = full({300, 401}, 0.001, DType::f16) * 1e6;  // a planned walk, in several pieces
  EXPECT_NEAR(only(max(many)), 1000, 1);
  EXPECT_NEAR(only(min(many)), 1000, 1);
}

TEST(Pow, HasAGradientWhereItIsFlat) {
  const Tensor x = random_leaf({3});
  sum(pow(x, 0)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 0, 0}));
}

// As PyTorch: 0 for e >= 0; below, 0^e log(0).
TEST(Pow, OfZeroHasTheSlopeOfItsExponent) {
  const Tensor x = zeros({3}, DType::f64), e = make_tensor({-1, 0, 2}, {3}).set_requires_grad();
  sum(pow(x, e)).backward();
  EXPECT_EQ(e.grad().to_vector<double>(), (Values{-inf, 0, 0}));
}

TEST(Pow, OfIntegersIsExact) {
  const auto power = [](std::int64_t base, std::int64_t e, DType t) {
    return pow(full({1}, base, t), full({1}, e, t)).to_vector<std::int64_t>()[0];
  };
  EXPECT_EQ(power(3, 39, DType::i64), 4052555153018976267);
  EXPECT_EQ(power((std::int64_t{1} << 31) + 1, 2, DType::i64), 4611686022722355201);
  EXPECT_EQ(power(-2, 3, DType::i64), -8);
  EXPECT_EQ(power(7, 0, DType::u8), 1);
  EXPECT_EQ(power(3, 6, DType::u8), 729 % 256);
  EXPECT_EQ(power(2, -1, DType::i64), 0);
  EXPECT_EQ(power(-1, -3, DType::i64), -1);
  EXPECT_EQ(power(0, -1, DType::i64), 0);
  EXPECT_EQ(pow(full({1}, 46341, DType::i32), 2).to_vector<std::int32_t>()[0], -2147479015);
}

TEST(Pow, OfZeroToTheZeroIsFlatToAnyOrder) {
  const Tensor x = zeros({1}, DType::f64).set_requires_grad(), e = zeros({1}, DType::f64);
  const Tensor g = grad({pow(x, e)}, {x}, {.create_graph = true})[0];
  EXPECT_EQ(g.item<double>(), 0);
  EXPECT_EQ(grad({sum(g)}, {x})[0].item<double>(), 0);
}

// PyTorch's: equal ones share the gradient, NaN wins and takes it.
TEST(Maximum, OfEqualsAndNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool is_max : {true, false})
    for (const bool recorded : {true, false}) {
      SCOPED_TRACE(detail::concat(is_max ? "maximum" : "minimum", recorded ? ", recorded" : ""));
      const double low = is_max ? 1 : 3, high = is_max ? 3 : 1;
      const Tensor a = make_tensor({low, 2, high, nan, 2}, {5}).set_requires_grad(),
                   b = make_tensor({high, 2, low, 2, nan}, {5}).set_requires_grad();
      const Tensor y = is_max ? maximum(a, b) : minimum(a, b);
      EXPECT_TRUE(all_close(y.to_vector<double>(), {high, 2, high, nan, nan}));
      const auto g = grad({y}, {a, b}, {.seeds = {full({5}, 8, DType::f64)}, .create_graph = recorded});
      EXPECT_EQ(g[0].to_vector<double>(), (Values{0, 4, 8, 8, 8}));
      EXPECT_EQ(g[1].to_vector<double>(), (Values{8, 4, 0, 8, 8}));
    }
}

TEST(Maximum, OfIntegers) {
  const Tensor x = from_vector(std::vector<std::int64_t>{-5, 2, 7});
  EXPECT_EQ(maximum(x, 2).to_vector<double>(), (Values{2, 2, 7}));
  EXPECT_EQ(minimum(x, from_vector(std::vector<std::int64_t>{0, -3, 9})).to_vector<double>(), (Values{-5, -3, 7}));
}

}  // namespace
}  // namespace bytetape
