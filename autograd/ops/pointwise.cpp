#include "bytetape/autograd/ops/pointwise.h"

#include <limits>
#include <numbers>

#include "bytetape/autograd/ops/activation.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/pointwise.h"

namespace bytetape {

using namespace elementwise;
using enum AttributeType;

struct ExpBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * y.get(); }
};
constexpr OpDefinition exp_op{.name = "exp", .family = Family::pointwise, .autocast = AutocastClass::f32};
Tensor exp(const Tensor& x) { return unary<exp_op, &PointwiseKernels::exp, ExpBackward>(x); }
Tensor exp_(const Tensor& x) { return unary_<exp_op, &PointwiseKernels::exp, ExpBackward>(x); }

struct LogBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] / x.get(); }
};
constexpr OpDefinition log_op{.name = "log", .family = Family::pointwise, .autocast = AutocastClass::f32};
Tensor log(const Tensor& x) { return unary<log_op, &PointwiseKernels::log, LogBackward>(x); }
Tensor log_(const Tensor& x) { return unary_<log_op, &PointwiseKernels::log, LogBackward>(x); }

struct Log1pBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] / (x.get() + 1); }
};
constexpr OpDefinition log1p_op{.name = "log1p", .family = Family::pointwise, .autocast = AutocastClass::f32};
Tensor log1p(const Tensor& x) { return unary<log1p_op, &PointwiseKernels::log1p, Log1pBackward>(x); }
Tensor log1p_(const Tensor& x) { return unary_<log1p_op, &PointwiseKernels::log1p, Log1pBackward>(x); }

struct Expm1Backward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * (y.get() + 1); }
};
constexpr OpDefinition expm1_op{.name = "expm1", .family = Family::pointwise, .autocast = AutocastClass::f32};
Tensor expm1(const Tensor& x) { return unary<expm1_op, &PointwiseKernels::expm1, Expm1Backward>(x); }
Tensor expm1_(const Tensor& x) { return unary_<expm1_op, &PointwiseKernels::expm1, Expm1Backward>(x); }

struct SinBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * cos(x.get()); }
};
constexpr OpDefinition sin_op{.name = "sin", .family = Family::pointwise};
Tensor sin(const Tensor& x) { return unary<sin_op, &PointwiseKernels::sin, SinBackward>(x); }
Tensor sin_(const Tensor& x) { return unary_<sin_op, &PointwiseKernels::sin, SinBackward>(x); }

struct CosBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = -(gy[0] * sin(x.get())); }
};
constexpr OpDefinition cos_op{.name = "cos", .family = Family::pointwise};
Tensor cos(const Tensor& x) { return unary<cos_op, &PointwiseKernels::cos, CosBackward>(x); }
Tensor cos_(const Tensor& x) { return unary_<cos_op, &PointwiseKernels::cos, CosBackward>(x); }

struct SqrtBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] / (y.get() * 2); }
};
constexpr OpDefinition sqrt_op{.name = "sqrt", .family = Family::pointwise};
Tensor sqrt(const Tensor& x) { return unary<sqrt_op, &PointwiseKernels::sqrt, SqrtBackward>(x); }
Tensor sqrt_(const Tensor& x) { return unary_<sqrt_op, &PointwiseKernels::sqrt, SqrtBackward>(x); }

struct RsqrtBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * (pow(y.get(), 3) * -0.5); }
};
constexpr OpDefinition rsqrt_op{.name = "rsqrt", .family = Family::pointwise, .autocast = AutocastClass::f32};
Tensor rsqrt(const Tensor& x) { return unary<rsqrt_op, &PointwiseKernels::rsqrt, RsqrtBackward>(x); }
Tensor rsqrt_(const Tensor& x) { return unary_<rsqrt_op, &PointwiseKernels::rsqrt, RsqrtBackward>(x); }

struct TanhBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = grad_enabled() ? gy[0] * (1 - y.get() * y.get()) : fused<&PointwiseKernels::tanh_backward>(y, gy[0], gx);
  }
};
constexpr OpDefinition tanh_op{.name = "tanh", .family = Family::pointwise};
Tensor tanh(const Tensor& x) { return unary<tanh_op, &PointwiseKernels::tanh, TanhBackward>(x); }
Tensor tanh_(const Tensor& x) { return unary_<tanh_op, &PointwiseKernels::tanh, TanhBackward>(x); }

struct SigmoidBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] =
        grad_enabled() ? gy[0] * (y.get() * (1 - y.get())) : fused<&PointwiseKernels::sigmoid_backward>(y, gy[0], gx);
  }
};
constexpr OpDefinition sigmoid_op{.name = "sigmoid", .family = Family::pointwise};
Tensor sigmoid(const Tensor& x) { return unary<sigmoid_op, &PointwiseKernels::sigmoid, SigmoidBackward>(x); }
Tensor sigmoid_(const Tensor& x) { return unary_<sigmoid_op, &PointwiseKernels::sigmoid, SigmoidBackward>(x); }

struct ReluBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = activation_grad(Activation::relu, y, gy[0], gx); }
};
constexpr OpDefinition relu_op{.name = "relu", .family = Family::pointwise};
Tensor relu(const Tensor& x) { return unary<relu_op, &PointwiseKernels::relu, ReluBackward>(x); }
Tensor relu_(const Tensor& x) { return unary_<relu_op, &PointwiseKernels::relu, ReluBackward>(x); }

/// Returns gy where v > 0, else gy * slope. v is x, or y if y has the sign of x.
static Tensor leaky_relu_grad(double slope, Saved& v, const Tensor& gy, const InputGrads& gx) {
  if (grad_enabled()) return where(v.get() > 0, gy, gy * slope);
  return fused<&PointwiseKernels::leaky_relu_backward>(v, gy, gx, slope);
}
struct LeakyReluBackward final : Node {
  Saved y{this};
  double slope = 0;
  void set(double negative_slope) { slope = negative_slope; }
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = leaky_relu_grad(slope, y, gy[0], gx); }
};
/// The rule for a negative slope. y does not have the sign of x then, so x is saved.
struct FoldingLeakyReluBackward final : Node {
  Saved x{this};
  double slope = 0;
  void set(double negative_slope) { slope = negative_slope; }
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = leaky_relu_grad(slope, x, gy[0], gx); }
};
static void check_leaky_relu(const Tensor& x, double) { check_floating(x); }
constexpr OpDefinition leaky_relu_op{
    .name = "leaky_relu", .attributes = {{"negative_slope", number}}, .family = Family::pointwise};
Tensor leaky_relu(const Tensor& x, double slope) {
  if (slope < 0)
    return unary<leaky_relu_op, &PointwiseKernels::leaky_relu, FoldingLeakyReluBackward, check_leaky_relu>(x, slope);
  return unary<leaky_relu_op, &PointwiseKernels::leaky_relu, LeakyReluBackward, check_leaky_relu>(x, slope);
}
Tensor leaky_relu_(const Tensor& x, double slope) {
  if (slope < 0)
    return unary_<leaky_relu_op, &PointwiseKernels::leaky_relu, FoldingLeakyReluBackward, check_leaky_relu>(x, slope);
  return unary_<leaky_relu_op, &PointwiseKernels::leaky_relu, LeakyReluBackward, check_leaky_relu>(x, slope);
}

struct SoftplusBackward final : Node {
  Saved x{this};
  double beta = 1, threshold = 20;
  void set(double b, double t) { beta = b, threshold = t; }
  void backward(const Grads& gy, InputGrads& gx) override {
    if (!grad_enabled()) {
      gx[0] = fused<&PointwiseKernels::softplus_backward>(x, gy[0], gx, beta, threshold);
      return;
    }
    const Tensor z = x.get() * beta;
    gx[0] = where(z > threshold, gy[0], gy[0] * sigmoid(z));
  }
};
static void check_softplus(const Tensor& x, double beta, double) {
  check_floating(x);
  check<ValueError>(beta != 0, "expected a beta other than 0");
}
constexpr OpDefinition softplus_op{.name = "softplus",
                                   .attributes = {{"beta", number}, {"threshold", number}},
                                   .family = Family::pointwise,
                                   .autocast = AutocastClass::f32};
Tensor softplus(const Tensor& x, double beta, double threshold) {
  return unary<softplus_op, &PointwiseKernels::softplus, SoftplusBackward, check_softplus>(x, beta, threshold);
}

struct ErfBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = gy[0] * (exp(-(x.get() * x.get())) * (2 * std::numbers::inv_sqrtpi));
  }
};
constexpr OpDefinition erf_op{.name = "erf", .family = Family::pointwise};
Tensor erf(const Tensor& x) { return unary<erf_op, &PointwiseKernels::erf, ErfBackward>(x); }
Tensor erf_(const Tensor& x) { return unary_<erf_op, &PointwiseKernels::erf, ErfBackward>(x); }

struct GeluBackward final : RemadeFromInput<&PointwiseKernels::gelu> {
  // The slope is Phi(x) + x phi(x).
  static Tensor slope(const Tensor& x) {
    constexpr double root_half = 1 / std::numbers::sqrt2;
    const Tensor density = exp(x * x * -0.5) * (std::numbers::inv_sqrtpi * root_half);
    return (1 + erf(x * root_half)) * 0.5 + x * density;
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = grad_enabled() ? gy[0] * slope(x.get()) : fused<&PointwiseKernels::gelu_backward>(x, gy[0], gx);
  }
};
struct GeluTanhBackward final : RemadeFromInput<&PointwiseKernels::gelu_tanh> {
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = activation_grad(Activation::gelu_tanh, x, gy[0], gx);
  }
};
constexpr OpDefinition gelu_op{.name = "gelu", .attributes = {{"approximate", text}}, .family = Family::pointwise};
Tensor gelu(const Tensor& x, Approximate approximate) {
  const Op<gelu_op> op(x, approximate);
  check_floating(x);
  if (approximate == Approximate::none) return run_unary<&PointwiseKernels::gelu, GeluBackward>(x, false);
  return run_unary<&PointwiseKernels::gelu_tanh, GeluTanhBackward>(x, false);
}
Tensor gelu(const Tensor& x) { return gelu(x, Approximate::none); }

struct SiluBackward final : RemadeFromInput<&PointwiseKernels::silu> {
  static Tensor slope(const Tensor& x) {
    const Tensor s = sigmoid(x);
    return s * (1 + x * (1 - s));
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = grad_enabled() ? gy[0] * slope(x.get()) : fused<&PointwiseKernels::silu_backward>(x, gy[0], gx);
  }
};
constexpr OpDefinition silu_op{.name = "silu", .family = Family::pointwise};
Tensor silu(const Tensor& x) { return unary<silu_op, &PointwiseKernels::silu, SiluBackward>(x); }
Tensor silu_(const Tensor& x) { return unary_<silu_op, &PointwiseKernels::silu, SiluBackward>(x); }

struct AbsBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * sign(x.get()); }
};
constexpr OpDefinition abs_op{.name = "abs", .family = Family::pointwise};
Tensor abs(const Tensor& x) { return unary<abs_op, &PointwiseKernels::abs, AbsBackward, check_arithmetic>(x); }
Tensor abs_(const Tensor& x) { return unary_<abs_op, &PointwiseKernels::abs, AbsBackward, check_arithmetic>(x); }

/// The rule of functions that are constant between jumps.
struct JumpBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = zeros_like(gy[0]); }
};
constexpr OpDefinition sign_op{.name = "sign", .family = Family::pointwise};
Tensor sign(const Tensor& x) { return unary<sign_op, &PointwiseKernels::sign, JumpBackward>(x); }

constexpr OpDefinition floor_op{.name = "floor", .family = Family::pointwise};
Tensor floor(const Tensor& x) { return unary<floor_op, &PointwiseKernels::floor, JumpBackward, check_arithmetic>(x); }
Tensor floor_(const Tensor& x) { return unary_<floor_op, &PointwiseKernels::floor, JumpBackward, check_arithmetic>(x); }
constexpr OpDefinition ceil_op{.name = "ceil", .family = Family::pointwise};
Tensor ceil(const Tensor& x) { return unary<ceil_op, &PointwiseKernels::ceil, JumpBackward, check_arithmetic>(x); }
Tensor ceil_(const Tensor& x) { return unary_<ceil_op, &PointwiseKernels::ceil, JumpBackward, check_arithmetic>(x); }
constexpr OpDefinition round_op{.name = "round", .family = Family::pointwise};
Tensor round(const Tensor& x) { return unary<round_op, &PointwiseKernels::round, JumpBackward, check_arithmetic>(x); }
Tensor round_(const Tensor& x) { return unary_<round_op, &PointwiseKernels::round, JumpBackward, check_arithmetic>(x); }

struct ClampBackward final : Node {
  Saved x{this};
  Scalar low = 0, high = 0;
  void set(Scalar least, Scalar most) { low = least, high = most; }
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor v = x.get().detach();
    gx[0] = where(v == clamp(v, low, high), gy[0], 0);  // low and high themselves pass the gradient
  }
};
static void check_clamp(const Tensor& x, Scalar low, Scalar high) {
  check_arithmetic(x);
  check_fits(low, x);
  check_fits(high, x);
  check<ValueError>(low.to<double>() <= high.to<double>(), "expected low <= high, got ", low, " and ", high);
}
constexpr OpDefinition clamp_op{
    .name = "clamp", .attributes = {{"low", number}, {"high", number}}, .family = Family::pointwise};
struct Bounds {
  Scalar low, high;
};
template <class T>
Bounds limits() {
  return {std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
}
/// Returns the bounds of a clamp of x. A missing one is the limit of x's dtype.
static Bounds bounds_for(const Tensor& x, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const DType dtype = x.defined() ? x.dtype() : DType::f32;
  const Bounds widest = dtype == DType::i64   ? limits<std::int64_t>()
                        : dtype == DType::i32 ? limits<std::int32_t>()
                        : dtype == DType::u8  ? limits<std::uint8_t>()
                                              : Bounds{-infinity, infinity};
  return {low.value_or(widest.low), high.value_or(widest.high)};
}
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  const Bounds b = bounds_for(x, low, high);
  return unary<clamp_op, &PointwiseKernels::clamp, ClampBackward, check_clamp>(x, b.low, b.high);
}
Tensor clamp_(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  const Bounds b = bounds_for(x, low, high);
  return unary_<clamp_op, &PointwiseKernels::clamp, ClampBackward, check_clamp>(x, b.low, b.high);
}

}  // namespace bytetape
