#include "bytetape/autograd/ops/pointwise.h"

#include <cmath>
#include <limits>

#include "bytetape/autograd/engine.h"
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
using Values = std::vector<double>;

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

TEST(Pointwise, KeepsNaN) {
  for (const auto op :
       {exp, log, log1p, expm1, sin, cos, sqrt, rsqrt, tanh, sigmoid, relu, gelu, erf, abs, sign, floor, ceil, round})
    for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16})
      for (const double v : op(full({20}, nan, t)).to_vector<double>()) EXPECT_TRUE(std::isnan(v)) << t;
  EXPECT_TRUE(std::isnan(clamp(full({}, nan), -1, 1).item<double>()));
  EXPECT_TRUE(std::isnan(leaky_relu(full({}, nan)).item<double>()));
}

TEST(LeakyRelu, HasItsSlopeAtZero) {
  const Tensor x = make_tensor({-2, 0, 3}, {3}).set_requires_grad();
  for (const double slope : {0.25, 0.0, -1.0}) {
    const Tensor y = leaky_relu(x, slope);
    EXPECT_EQ(y.to_vector<double>(), (Values{-2 * slope, 0, 3}));
    EXPECT_EQ(grad({y}, {x}, {.seeds = {ones_like(y)}})[0].to_vector<double>(), (Values{slope, slope, 1}));
  }
}

// What follows may have kept the result too, and x may be let go.
TEST(LeakyRelu, KeepsItsResultAlone) {
  const Tensor x = random_leaf({3}) * 1;
  leaky_relu(x);
  EXPECT_EQ(x.storage().role(), memory::Role::temporary);
  const Tensor y = leaky_relu(x);
  EXPECT_EQ(y.storage().role(), memory::Role::saved);
}

Values of(const Values& x, Tensor (*op)(const Tensor&), DType t) {
  return op(make_tensor(x, {static_cast<std::int64_t>(x.size())}, t)).to_vector<double>();
}

TEST(PointwiseLimits, AreReached) {
  for (const DType t : {DType::f64, DType::f32, DType::bf16}) {
    EXPECT_EQ(of({-inf, -2000, 0, 2000, inf}, exp, t), (Values{0, 0, 1, inf, inf})) << t;
    EXPECT_EQ(of({0, 1, inf}, log, t), (Values{-inf, 0, inf})) << t;
    EXPECT_EQ(of({0, 1, 4, inf}, sqrt, t), (Values{0, 1, 2, inf})) << t;
    EXPECT_EQ(of({0, 1, 4, inf}, rsqrt, t), (Values{inf, 1, 0.5, 0})) << t;
    EXPECT_EQ(of({-inf, -1000, 0, 1000, inf}, tanh, t), (Values{-1, -1, 0, 1, 1})) << t;
    EXPECT_EQ(of({-inf, -2000, 0, 2000, inf}, sigmoid, t), (Values{0, 0, 0.5, 1, 1})) << t;
    EXPECT_EQ(of({-inf, -1, 0, 2, inf}, relu, t), (Values{0, 0, 0, 2, inf})) << t;
    EXPECT_EQ(of({-1000, 0, 1000}, gelu, t), (Values{0, 0, 1000})) << t;
    const auto by_tanh = [](const Tensor& x) { return gelu(x, Approximate::tanh); };
    EXPECT_EQ(of({-1000, 0, 1000}, by_tanh, t), (Values{0, 0, 1000})) << t;
    EXPECT_EQ(of({-inf, -1, 0, 2, inf}, sign, t), (Values{-1, -1, 0, 1, 1})) << t;
    EXPECT_EQ(of({-1, 0, inf}, log1p, t), (Values{-inf, 0, inf})) << t;
    EXPECT_EQ(of({-inf, -1000, 0, 1000, inf}, expm1, t), (Values{-1, -1, 0, inf, inf})) << t;
    for (const auto op : {sin, cos})
      for (const double v : of({-inf, inf}, op, t)) EXPECT_TRUE(std::isnan(v)) << t;
    EXPECT_TRUE(std::isnan(of({-2}, log1p, t)[0])) << t;
    EXPECT_TRUE(std::isnan(of({-1}, log, t)[0])) << t;
    EXPECT_TRUE(std::isnan(of({-1}, sqrt, t)[0])) << t;
  }
}

TEST(PointwiseLimits, SmallResultsOfExpAndSigmoidKeepTheirDigits) {
  EXPECT_TRUE(
      all_close(of({-80, -50, 80}, exp, DType::f32), {1.8048513878e-35, 1.9287498480e-22, 5.5406223844e34}, 1e-5, 0));
  EXPECT_TRUE(all_close(of({-80, -50, 80}, sigmoid, DType::f32), {1.8048513878e-35, 1.9287498480e-22, 1}, 1e-5, 0));
  EXPECT_TRUE(all_close(of({-700, -300}, exp, DType::f64), {std::exp(-700.), std::exp(-300.)}, 1e-13, 0));
}

TEST(PointwiseLimits, Log1pAndExpm1KeepDigitsNearZero) {
  for (const double v : {1e-30, -1e-30, 1e-12, -1e-7, 3e-4, -0.02}) {
    for (const auto& [t, tolerance] : {std::pair{DType::f32, 1e-6}, {DType::f64, 1e-14}}) {
      EXPECT_TRUE(all_close(of({v}, log1p, t), {std::log1p(v)}, tolerance, 0)) << v << t;
      EXPECT_TRUE(all_close(of({v}, expm1, t), {std::expm1(v)}, tolerance, 0)) << v << t;
    }
  }
}

TEST(Sine, TakesLargeAngles) {
  for (const float v : {1e2f, 12345.678f, 1e6f, 2.5e8f, 3e20f, 3e38f}) {
    EXPECT_NEAR(of({v}, sin, DType::f32)[0], std::sin(double{v}), 2e-6) << v;
    EXPECT_NEAR(of({v}, cos, DType::f32)[0], std::cos(double{v}), 2e-6) << v;
    EXPECT_NEAR(of({-v}, sin, DType::f64)[0], std::sin(-double{v}), 1e-15) << v;
  }
}

TEST(Pointwise, KeepsTheSignOfZero) {
  for (const auto op : {sin, log1p, expm1, floor, ceil, round})
    for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      EXPECT_TRUE(std::signbit(of({-0.0}, op, t)[0])) << t;
      EXPECT_FALSE(std::signbit(of({0.0}, op, t)[0])) << t;
    }
}

TEST(Round, TakesHalvesToTheEvenNeighbour) {
  const Values x{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.7, -3.7, inf, -inf, 8388609};
  for (const DType t : {DType::f64, DType::f32}) {
    EXPECT_EQ(of(x, round, t), (Values{-2, -2, 0, 0, 2, 2, 4, -4, inf, -inf, 8388609})) << t;
    EXPECT_EQ(of(x, floor, t), (Values{-3, -2, -1, 0, 1, 2, 3, -4, inf, -inf, 8388609})) << t;
    EXPECT_EQ(of(x, ceil, t), (Values{-2, -1, 0, 1, 2, 3, 4, -3, inf, -inf, 8388609})) << t;
  }
}

TEST(Round, CopiesIntegers) {
  for (const DType t : {DType::i64, DType::i32, DType::u8})
    for (const auto op : {floor, ceil, round, floor_, ceil_, round_}) {
      const Tensor y = op(make_tensor({0, 7, 200}, {3}, t));
      EXPECT_EQ(y.dtype(), t);
      EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{0, 7, 200})) << t;
    }
}

TEST(PointwiseLimits, LogTakesWhatIsBelowTheLeastNormalNumber) {
  EXPECT_TRUE(all_close(of({1e-40, 3e-39}, log, DType::f32), {std::log(1e-40), std::log(3e-39)}, 1e-5, 0));
  EXPECT_TRUE(all_close(of({5e-324, 1e-310}, log, DType::f64), {std::log(5e-324), std::log(1e-310)}, 1e-13, 0));
}

TEST(Abs, TakesIntegers) {
  EXPECT_EQ(abs(from_vector<std::int32_t>({-3, 0, 4})).to_vector<int>(), (std::vector<int>{3, 0, 4}));
  EXPECT_EQ(abs(from_vector<std::uint8_t>({200})).item<int>(), 200);
}

TEST(Clamp, TakesIntegersThatFit) {
  const Tensor x = from_vector<std::int64_t>({-9, 2, 9});
  EXPECT_EQ(clamp(x, -1, 5.0).to_vector<int>(), (std::vector<int>{-1, 2, 5}));
  EXPECT_THROW(clamp(to(x, DType::u8), -1, 5), DTypeError);
}

TEST(Clamp, TakesAnOpenRange) { EXPECT_EQ(clamp(full({1}, 7), -inf, inf).item<int>(), 7); }

TEST(Clamp, TakesALowerBoundAlone) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
    const Tensor x = to(from_vector<std::int64_t>({0, 3, 200}), dtype);
    EXPECT_EQ(clamp(x, 2).to_vector<int>(), (std::vector<int>{2, 3, 200})) << dtype;
    EXPECT_EQ(clamp_(x, 3).to_vector<int>(), (std::vector<int>{3, 3, 200})) << dtype;
    EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{3, 3, 200})) << dtype;
  }
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(clamp(from_vector<std::int64_t>({-5, most}), 0).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, most}));
  EXPECT_EQ(clamp(full({1}, inf), 0).item<double>(), inf);
  EXPECT_TRUE(std::isnan(clamp(full({1}, nan), 0).item<double>()));
  EXPECT_THROW(clamp(zeros({2}, DType::u8), -1), DTypeError);
  EXPECT_THROW(clamp(zeros({2}, DType::boolean), 0), DTypeError);
  EXPECT_THROW(clamp(Tensor(), 0), ValueError);
  const Tensor x = make_tensor({-2, 0, 3}, {3}).set_requires_grad();
  sum(clamp(x, 0)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 1, 1}));
}

TEST(Clamp, TakesAnUpperBoundAlone) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
    const Tensor x = to(from_vector<std::int64_t>({0, 3, 200}), dtype);
    EXPECT_EQ(clamp(x, {}, 3).to_vector<int>(), (std::vector<int>{0, 3, 3})) << dtype;
    EXPECT_EQ(clamp_(x, {}, 2).to_vector<int>(), (std::vector<int>{0, 2, 2})) << dtype;
  }
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(clamp_max(from_vector<std::int64_t>({least, 5}), 0).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{least, 0}));
  EXPECT_EQ(clamp_max(full({1}, -inf), 0).item<double>(), -inf);
  EXPECT_TRUE(std::isnan(clamp_max(full({1}, nan), 0).item<double>()));
  EXPECT_EQ(clamp(full({1}, 7), {}).item<int>(), 7);
}

TEST(Clamp, PassesTheGradientAtBothEnds) {
  const Tensor x = make_tensor({-2, -1, 0, 1.5, 2}, {5}).set_requires_grad();
  sum(clamp(x, -1, 1.5)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 1, 1, 1, 0}));
}

TEST(Relu, HasNoGradientAtZeroAndPassesThatOfNaN) {
  const Tensor x = make_tensor({-1, 0, 2, nan}, {4}).set_requires_grad();
  sum(relu(x)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 0, 1, 1}));
}

TEST(Pointwise, OverwritingASavedOutputIsFound) {
  const Tensor x = random_leaf({3});
  Tensor y = exp(x);
  y += 1;
  EXPECT_THROWS_SAYING(sum(y).backward(), AutogradError, "overwritten by 'add_'");
}

TEST(Clamp, TakesBoundsThatItsDTypeHolds) {
  const Tensor x = arange(3);
  for (const auto& [low, high] : {std::pair<Scalar, Scalar>{0, 1.5}, {0.5, 1}}) {
    EXPECT_THROW(clamp(x, low, high), Error);
    EXPECT_THROW(clamp_(x, low, high), Error);
  }
  EXPECT_EQ(clamp(x, 1, 1).to_vector<int>(), (std::vector<int>{1, 1, 1}));
}

}  // namespace
}  // namespace bytetape
