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

/// gy where v, x or a result of its sign, is positive; else gy * slope.
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
/// Of a slope below 0, where y does not tell the sign of x.
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

struct GeluBackward final : Node {
  Saved x{this};
  // Phi(x) + x phi(x)
  static Tensor slope(const Tensor& x) {
    constexpr double root_half = 1 / std::numbers::sqrt2;
    const Tensor density = exp(x * x * -0.5) * (std::numbers::inv_sqrtpi * root_half);
    return (1 + erf(x * root_half)) * 0.5 + x * density;
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = grad_enabled() ? gy[0] * slope(x.get()) : fused<&PointwiseKernels::gelu_backward>(x, gy[0], gx);
  }
};
struct GeluTanhBackward final : Node {
  Saved x{this};
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

struct SiluBackward final : Node {
  Saved x{this};
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

struct SignBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = zeros_like(gy[0]); }
};
constexpr OpDefinition sign_op{.name = "sign", .family = Family::pointwise};
Tensor sign(const Tensor& x) { return unary<sign_op, &PointwiseKernels::sign, SignBackward>(x); }

struct ClampBackward final : Node {
  Saved x{this};
  Scalar low = 0, high = 0;
  void set(Scalar least, Scalar most) { low = least, high = most; }
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor v = x.get().detach();
    gx[0] = where(v == clamp(v, low, high), gy[0], 0);  // both ends are inside
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
Tensor clamp(const Tensor& x, Scalar low, Scalar high) {
  return unary<clamp_op, &PointwiseKernels::clamp, ClampBackward, check_clamp>(x, low, high);
}
Tensor clamp_(const Tensor& x, Scalar low, Scalar high) {
  return unary_<clamp_op, &PointwiseKernels::clamp, ClampBackward, check_clamp>(x, low, high);
}
/// A number that no element of x exceeds.
static Scalar greatest(const Tensor& x) {
  switch (x.defined() ? x.dtype() : DType::f32) {
    case DType::i64:
      return std::numeric_limits<std::int64_t>::max();
    case DType::i32:
      return std::numeric_limits<std::int32_t>::max();
    case DType::u8:
      return std::numeric_limits<std::uint8_t>::max();
    default:
      return std::numeric_limits<double>::infinity();
  }
}
Tensor clamp(const Tensor& x, Scalar low) { return clamp(x, low, greatest(x)); }
Tensor clamp_(const Tensor& x, Scalar low) { return clamp_(x, low, greatest(x)); }

}  // namespace bytetape
