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

struct ExpBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * y.get(); }
};
Tensor exp(const Tensor& x) { return unary<"exp", &PointwiseKernels::exp, ExpBackward>(widened(x)); }
Tensor exp_(const Tensor& x) { return unary_<"exp_", &PointwiseKernels::exp, ExpBackward>(x); }

struct LogBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] / x.get(); }
};
Tensor log(const Tensor& x) { return unary<"log", &PointwiseKernels::log, LogBackward>(widened(x)); }
Tensor log_(const Tensor& x) { return unary_<"log_", &PointwiseKernels::log, LogBackward>(x); }

struct SqrtBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] / (y.get() * 2); }
};
Tensor sqrt(const Tensor& x) { return unary<"sqrt", &PointwiseKernels::sqrt, SqrtBackward>(x); }
Tensor sqrt_(const Tensor& x) { return unary_<"sqrt_", &PointwiseKernels::sqrt, SqrtBackward>(x); }

struct RsqrtBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * (pow(y.get(), 3) * -0.5); }
};
Tensor rsqrt(const Tensor& x) { return unary<"rsqrt", &PointwiseKernels::rsqrt, RsqrtBackward>(widened(x)); }
Tensor rsqrt_(const Tensor& x) { return unary_<"rsqrt_", &PointwiseKernels::rsqrt, RsqrtBackward>(x); }

struct TanhBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = grad_enabled() ? gy[0] * (1 - y.get() * y.get()) : fused<&PointwiseKernels::tanh_backward>(y, gy[0], gx);
  }
};
Tensor tanh(const Tensor& x) { return unary<"tanh", &PointwiseKernels::tanh, TanhBackward>(x); }
Tensor tanh_(const Tensor& x) { return unary_<"tanh_", &PointwiseKernels::tanh, TanhBackward>(x); }

struct SigmoidBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] =
        grad_enabled() ? gy[0] * (y.get() * (1 - y.get())) : fused<&PointwiseKernels::sigmoid_backward>(y, gy[0], gx);
  }
};
Tensor sigmoid(const Tensor& x) { return unary<"sigmoid", &PointwiseKernels::sigmoid, SigmoidBackward>(x); }
Tensor sigmoid_(const Tensor& x) { return unary_<"sigmoid_", &PointwiseKernels::sigmoid, SigmoidBackward>(x); }

struct ReluBackward final : Node {
  Saved y{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = activation_grad(Activation::relu, y, gy[0], gx); }
};
Tensor relu(const Tensor& x) { return unary<"relu", &PointwiseKernels::relu, ReluBackward>(x); }
Tensor relu_(const Tensor& x) { return unary_<"relu_", &PointwiseKernels::relu, ReluBackward>(x); }

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
Tensor leaky_relu(const Tensor& x, double slope) {
  if (slope < 0)
    return unary<"leaky_relu", &PointwiseKernels::leaky_relu, FoldingLeakyReluBackward, check_leaky_relu>(x, slope);
  return unary<"leaky_relu", &PointwiseKernels::leaky_relu, LeakyReluBackward, check_leaky_relu>(x, slope);
}
Tensor leaky_relu_(const Tensor& x, double slope) {
  if (slope < 0)
    return unary_<"leaky_relu_", &PointwiseKernels::leaky_relu, FoldingLeakyReluBackward, check_leaky_relu>(x, slope);
  return unary_<"leaky_relu_", &PointwiseKernels::leaky_relu, LeakyReluBackward, check_leaky_relu>(x, slope);
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
Tensor softplus(const Tensor& x, double beta, double threshold) {
  return unary<"softplus", &PointwiseKernels::softplus, SoftplusBackward, check_softplus>(widened(x), beta, threshold);
}

struct ErfBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = gy[0] * (exp(-(x.get() * x.get())) * (2 * std::numbers::inv_sqrtpi));
  }
};
Tensor erf(const Tensor& x) { return unary<"erf", &PointwiseKernels::erf, ErfBackward>(x); }
Tensor erf_(const Tensor& x) { return unary_<"erf_", &PointwiseKernels::erf, ErfBackward>(x); }

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
Tensor gelu(const Tensor& x) { return unary<"gelu", &PointwiseKernels::gelu, GeluBackward>(x); }

struct GeluTanhBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = activation_grad(Activation::gelu_tanh, x, gy[0], gx);
  }
};
Tensor gelu(const Tensor& x, Approximate approximate) {
  if (approximate == Approximate::none) return gelu(x);
  return unary<"gelu", &PointwiseKernels::gelu_tanh, GeluTanhBackward>(x);
}

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
Tensor silu(const Tensor& x) { return unary<"silu", &PointwiseKernels::silu, SiluBackward>(x); }
Tensor silu_(const Tensor& x) { return unary_<"silu_", &PointwiseKernels::silu, SiluBackward>(x); }

struct AbsBackward final : Node {
  Saved x{this};
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0] * sign(x.get()); }
};
Tensor abs(const Tensor& x) { return unary<"abs", &PointwiseKernels::abs, AbsBackward, check_arithmetic>(x); }
Tensor abs_(const Tensor& x) { return unary_<"abs_", &PointwiseKernels::abs, AbsBackward, check_arithmetic>(x); }

struct SignBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = zeros_like(gy[0]); }
};
Tensor sign(const Tensor& x) { return unary<"sign", &PointwiseKernels::sign, SignBackward>(x); }

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
Tensor clamp(const Tensor& x, Scalar low, Scalar high) {
  return unary<"clamp", &PointwiseKernels::clamp, ClampBackward, check_clamp>(x, low, high);
}
Tensor clamp_(const Tensor& x, Scalar low, Scalar high) {
  return unary_<"clamp_", &PointwiseKernels::clamp, ClampBackward, check_clamp>(x, low, high);
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
