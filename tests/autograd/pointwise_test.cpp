#include "bytetape/autograd/ops/pointwise.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/gradcheck.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

namespace bytetape {
namespace {

using test::all_close;
using test::make_tensor;
using test::random_leaf;
using test::random_tensor;
using Values = std::vector<double>;

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

/// A function, its in-place form (null where it has none), the truth, and what x from a normal z is in its domain.
struct Function {
  std::string name;
  Tensor (*op)(const Tensor&);
  Tensor (*in_place)(const Tensor&);
  double (*truth)(double);
  double (*domain)(double) = [](double z) { return 3 * z; };
};

double positive(double z) { return std::abs(z) + 0.1; }

const Function functions[] = {
    {"exp", exp, exp_, std::exp},
    {"log", log, log_, std::log, positive},
    {"sqrt", sqrt, sqrt_, std::sqrt, positive},
    {"rsqrt", rsqrt, rsqrt_, [](double v) { return 1 / std::sqrt(v); }, positive},
    {"tanh", tanh, tanh_, std::tanh},
    {"sigmoid", sigmoid, sigmoid_, [](double v) { return 1 / (1 + std::exp(-v)); }},
    {"relu", relu, relu_, [](double v) { return v > 0 ? v : 0; }},
    {"gelu", gelu, nullptr, [](double v) { return v * std::erfc(-v / std::numbers::sqrt2) / 2; }},
    {"abs", abs, abs_, [](double v) { return std::abs(v); }},
    {"sign", sign, nullptr, [](double v) { return v > 0 ? 1. : -1.; }},
    {"clamp", [](const Tensor& x) { return clamp(x, -1, 1.5); }, [](const Tensor& x) { return clamp_(x, -1, 1.5); },
     [](double v) { return std::min(std::max(v, -1.), 1.5); }},
};

class Pointwise : public testing::TestWithParam<Function> {
 protected:
  Tensor input(const Shape& shape, DType dtype = DType::f64) const {
    Values v = random_tensor(shape).to_vector<double>();
    for (double& z : v) z = GetParam().domain(z);
    return make_tensor(v, shape, dtype);
  }
  /// What the op should give for x as it is stored, rounded as the result is.
  Tensor expected(const Tensor& x) const {
    Values v = x.to_vector<double>();
    for (double& z : v) z = GetParam().truth(z);
    return make_tensor(v, x.shape(), x.dtype());
  }
};
INSTANTIATE_TEST_SUITE_P(All, Pointwise, testing::ValuesIn(functions),
                         [](const auto& info) { return info.param.name; });

TEST_P(Pointwise, HasItsValuesInEveryDtype) {
  const std::pair<DType, double> tolerances[] = {
      {DType::f64, 1e-14}, {DType::f32, 2e-6}, {DType::bf16, 1e-2}, {DType::f16, 2e-3}};
  for (const auto& [t, tolerance] : tolerances)
    for (const Shape& shape : {Shape{}, {0}, {1}, {3}, {16}, {17}, {5, 61}, {1000}, {2, 3, 4, 5}}) {
      const Tensor x = input(shape, t), y = GetParam().op(x);
      EXPECT_EQ(y.dtype(), t);
      EXPECT_TRUE(all_close(y, expected(x), tolerance, tolerance)) << t << shape;
    }
}

TEST_P(Pointwise, FollowsStridesAndKeepsDenseOnes) {
  const Tensor x = input({6, 40}, DType::f32);
  const Tensor whole = GetParam().op(x);
  for (const auto& [shape, strides, offset] :
       {std::tuple(Shape{40, 6}, Strides{1, 40}, 0), {{3, 20}, {80, 2}, 1}, {{4, 40}, {0, 1}, 80}, {{5}, {0}, 7}}) {
    const Tensor y = GetParam().op(x.alias(shape, strides, offset));
    // An element's bits do not depend on where it lies.
    EXPECT_EQ(y.to_vector<double>(), whole.alias(shape, strides, offset).to_vector<double>()) << shape << strides;
  }
  EXPECT_EQ(GetParam().op(x.alias({40, 6}, {1, 40}, 0)).strides(), (Strides{1, 40}));
}

TEST_P(Pointwise, BitsDoNotDependOnTheThreadCount) {
  for (const DType t : {DType::f32, DType::f64}) {
    const Tensor x = input({300007}, t);
    const auto run = [&] { return GetParam().op(x).to_vector<double>(); };
    const Values one = test::with_threads(1, run);
    EXPECT_TRUE(test::with_threads(2, run) == one) << t;
    EXPECT_TRUE(test::with_threads(3, run) == one) << t;
  }
}

TEST_P(Pointwise, KeepsNaN) {
  for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const Tensor y = GetParam().op(full({20}, nan, t));
    for (const double v : y.to_vector<double>()) EXPECT_TRUE(std::isnan(v)) << t;
  }
}

TEST_P(Pointwise, GradientsAreRight) {
  const auto fn = [](const std::vector<Tensor>& x) { return GetParam().op(x[0]); };
  for (const Shape& shape : {Shape{}, {1}, {7}, {2, 3}, {2, 0, 3}, {2, 1, 3, 2}}) {
    const auto first = gradcheck(fn, {input(shape).set_requires_grad()});
    EXPECT_TRUE(first) << shape << first.message;
    const auto second = gradgradcheck(fn, {input(shape).set_requires_grad()});
    EXPECT_TRUE(second) << shape << second.message;
  }
  const auto strided = [](const std::vector<Tensor>& x) {
    return GetParam().op(transpose(narrow(x[0], 1, 1, 2), 0, 1));
  };
  const auto result = gradcheck(strided, {input({3, 4}).set_requires_grad()});
  EXPECT_TRUE(result) << result.message;
}

class PointwiseInPlace : public Pointwise {};
std::vector<Function> with_in_place_forms() {
  std::vector<Function> list(std::begin(functions), std::end(functions));
  std::erase_if(list, [](const Function& f) { return f.in_place == nullptr; });
  return list;
}
INSTANTIATE_TEST_SUITE_P(All, PointwiseInPlace, testing::ValuesIn(with_in_place_forms()),
                         [](const auto& info) { return info.param.name; });

TEST_P(PointwiseInPlace, EqualsOutOfPlace) {
  const Function& f = GetParam();
  const Tensor x = input({3, 5}).set_requires_grad(), w = random_tensor({3, 5});
  Tensor y = x * 1;
  const Tensor returned = f.in_place(y);
  EXPECT_TRUE(returned.is_same(y));
  EXPECT_EQ(y.to_vector<double>(), f.op(x).to_vector<double>());
  const Tensor expected = grad({sum(f.op(x) * w)}, {x})[0];
  EXPECT_TRUE(all_close(grad({sum(y * w)}, {x})[0], expected));
  Tensor leaf = input({2}).set_requires_grad();
  EXPECT_THROW(f.in_place(leaf), AutogradError);
}

TEST_P(Pointwise, WorksOnMeta) {
  const Tensor x = empty({4, 5}, DType::f32, Device::meta()).set_requires_grad();
  const Tensor y = GetParam().op(x);
  EXPECT_EQ(describe(y), "f32(4, 5) on meta");
  y.backward(empty_like(y));
  EXPECT_EQ(x.grad().shape(), x.shape());
}

TEST_P(Pointwise, RejectsBadInput) {
  const Function& f = GetParam();
  EXPECT_THROWS_SAYING(f.op(zeros({2}, DType::boolean)), DTypeError, f.name);
  EXPECT_THROW(f.op(Tensor()), ValueError);
  if (f.name != "abs" && f.name != "clamp") {
    EXPECT_THROWS_SAYING(f.op(zeros({2}, DType::i64)), DTypeError, "i64(2,) on cpu");
  }
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
    EXPECT_EQ(of({-inf, -1, 0, 2, inf}, sign, t), (Values{-1, -1, 0, 1, 1})) << t;
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

TEST(Abs, TakesIntegers) {
  EXPECT_EQ(abs(from_vector<std::int32_t>({-3, 0, 4})).to_vector<int>(), (std::vector<int>{3, 0, 4}));
  EXPECT_EQ(abs(from_vector<std::uint8_t>({200})).item<int>(), 200);
}

TEST(Clamp, TakesIntegersThatFit) {
  const Tensor x = from_vector<std::int64_t>({-9, 2, 9});
  EXPECT_EQ(clamp(x, -1, 5.0).to_vector<int>(), (std::vector<int>{-1, 2, 5}));
  EXPECT_THROWS_SAYING(clamp(x, 0.5, 5), DTypeError, "clamp: the number 0.5 is no i64");
  EXPECT_THROW(clamp(to(x, DType::u8), -1, 5), DTypeError);
}

TEST(Clamp, RejectsAnEmptyRange) {
  EXPECT_THROWS_SAYING(clamp(zeros({2}), 1, 0), ValueError, "low <= high");
  EXPECT_THROW(clamp(zeros({2}), nan, 0), ValueError);
  EXPECT_EQ(clamp(full({1}, 7), -inf, inf).item<int>(), 7);
}

TEST(Clamp, PassesTheGradientAtBothEnds) {
  const Tensor x = make_tensor({-2, -1, 0, 1.5, 2}, {5}).set_requires_grad();
  sum(clamp(x, -1, 1.5)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 1, 1, 1, 0}));
}

TEST(Relu, HasNoGradientAtZero) {
  const Tensor x = make_tensor({-1, 0, 2}, {3}).set_requires_grad();
  sum(relu(x)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 0, 1}));
}

TEST(Pointwise, OverwritingASavedOutputIsFound) {
  const Tensor x = random_leaf({3});
  Tensor y = exp(x);
  y += 1;
  EXPECT_THROWS_SAYING(sum(y).backward(), AutogradError, "overwritten by 'add_'");
}

TEST(Pointwise, BackwardTakesGradientsOfOtherLayouts) {
  const Shape shape{2, 3, 4, 5};
  const Tensor values = random_tensor(shape), gy = random_tensor(shape);
  const Tensor x = channels_last(values).set_requires_grad();
  for (const auto op : {relu, tanh, sigmoid, gelu}) {
    const Tensor plain = contiguous(values).detach().set_requires_grad();
    const Tensor gx = grad({op(x)}, {x}, {.seeds = {gy}})[0];
    EXPECT_EQ(gx.strides(), x.strides());
    EXPECT_TRUE(all_close(gx, grad({op(plain)}, {plain}, {.seeds = {gy}})[0], 0, 0));
  }
}

TEST(PointwiseLimits, LogTakesWhatIsBelowTheLeastNormalNumber) {
  EXPECT_TRUE(all_close(of({1e-40, 3e-39}, log, DType::f32), {std::log(1e-40), std::log(3e-39)}, 1e-5, 0));
  EXPECT_TRUE(all_close(of({5e-324, 1e-310}, log, DType::f64), {std::log(5e-324), std::log(1e-310)}, 1e-13, 0));
}

TEST(Pow, HasAGradientWhereItIsFlat) {
  const Tensor x = randn({3}, DType::f64).set_requires_grad();
  sum(pow(x, 0)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0, 0}));
}

// As PyTorch: 0 for e >= 0; below, 0^e log(0).
TEST(Pow, OfZeroHasTheSlopeOfItsExponent) {
  const Tensor x = zeros({3}, DType::f64), e = test::make_tensor({-1, 0, 2}, {3}).set_requires_grad();
  sum(pow(x, e)).backward();
  EXPECT_EQ(e.grad().to_vector<double>(), (std::vector<double>{-std::numeric_limits<double>::infinity(), 0, 0}));
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

TEST(Relu, PassesTheGradientOfNaN) {
  const Tensor x = from_vector<float>({std::nanf(""), -1, 2}).set_requires_grad();
  sum(relu(x)).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 0, 1}));
}

}  // namespace
}  // namespace bytetape
