#include <cmath>
#include <limits>
#include <numbers>
#include <unsupported/Eigen/SpecialFunctions>

#include "bytetape/core/cpu/table.h"
#include "bytetape/core/cpu/whole_vectors.h"
#include "bytetape/core/integers.h"
#include "bytetape/core/kernels/pointwise.h"

namespace bytetape::cpu {
namespace {

template <class X>
using scalar_t = typename X::Scalar;

/// Phi(x), the distribution function of the standard normal.
template <class X>
auto normal_cdf(const X& x) {
  using C = scalar_t<X>;
  return C(0.5) * (C(1) + (x * C(std::numbers::sqrt2 / 2)).erf());
}

void exp(const ConstView& x, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    // Eigen's exp returns the smallest normal number instead of smaller results. Those are set to 0.
    const C least = -std::log(std::numeric_limits<C>::max());
    in_whole_vectors<T>(
        [=](auto& y, const auto& x) {
          y = x.exp();
          y = (x < least).select(C(0), y);
        },
        y, x);
  });
}

void log(const ConstView& x, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    // Eigen's log is wrong below the smallest normal number. Such x are scaled up first.
    constexpr C least = std::numeric_limits<C>::min(), lift = 1 / std::numeric_limits<C>::epsilon();
    const C lifted = std::log(lift);
    in_whole_vectors<T>(
        [=](auto& y, const auto& x) {
          y = (x < least).select(x * lift, x);
          y = y.log();
          y = (x < least).select(y - lifted, y);
        },
        y, x);
  });
}

// Eigen's vectorised square root is approximate, and NaN at infinity. std::sqrt is correctly rounded, and GCC
// vectorises it.
void sqrt(const ConstView& x, const View& y) {
  exact([](auto v) { return std::sqrt(v); }, y, x);
}
void rsqrt(const ConstView& x, const View& y) {
  exact([](auto v) { return 1 / std::sqrt(v); }, y, x);
}

void tanh(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = x.tanh(); }, y, x);
}

// For large -x, exp overflows to infinity, and the quotient is 0, as it should be.
void sigmoid(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = 1 / (1 + (-x).exp()); }, y, x);
}

void relu(const ConstView& x, const View& y) {
  exact([](auto v) { return v < 0 ? decltype(v)(0) : v; }, y, x);
}

void gelu(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = x * normal_cdf(x); }, y, x);
}

/// exp(-2 u), with u as in gelu_tanh.
template <class X>
auto gelu_tanh_exp(const X& x) {
  using C = scalar_t<X>;
  return (x * (C(-gelu_tanh_linear) - C(gelu_tanh_cubic) * x * x)).exp();
}

void gelu_tanh(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = x / (1 + gelu_tanh_exp(x)); }, y, x);
}

void silu(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = x / (1 + (-x).exp()); }, y, x);
}

void erf(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = x.erf(); }, y, x);
}

void sin(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = x.sin(); }, y, x);
}
void cos(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = x.cos(); }, y, x);
}

void log1p(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = x.log1p(); }, y, x);
}
void expm1(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = x.expm1(); }, y, x);
}

/// Computes y = f(x), which is a whole number. Integers are copied.
template <class F>
void whole(const F& f, const ConstView& x, const View& y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto of_one = [&](auto v) {
      if constexpr (std::is_integral_v<T>)
        return v;
      else
        return f(v);
    };
    elementwise<T, T>([&](const auto& x) { return x.unaryExpr(of_one); }, y, x);
  });
}
void floor(const ConstView& x, const View& y) {
  whole([](auto v) { return std::floor(v); }, x, y);
}
void ceil(const ConstView& x, const View& y) {
  whole([](auto v) { return std::ceil(v); }, x, y);
}
void round(const ConstView& x, const View& y) {
  whole([](auto v) { return std::nearbyint(v); }, x, y);
}

void abs(const ConstView& x, const View& y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::signed_integral<T>)
      elementwise<T, T>([](const auto& x) { return x.unaryExpr([](T v) { return v < 0 ? negated(v) : v; }); }, y, x);
    else
      elementwise<T, T>([](const auto& x) { return x.abs(); }, y, x);
  });
}

void sign(const ConstView& x, const View& y) {
  exact([](auto v) { return v > 0 ? decltype(v)(1) : v < 0 ? decltype(v)(-1) : v; }, y, x);
}

void clamp(Scalar low, Scalar high, const ConstView& x, const View& y) {
  visit_arithmetic(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const C least = low.to<C>(), most = high.to<C>();
    elementwise<T, T>(
        [&](const auto& x) { return x.unaryExpr([=](C v) { return v < least  ? least
                                                                  : v > most ? most
                                                                             : v; }); }, y, x);
  });
}

void tanh_backward(const ConstView& y, const ConstView& gy, const View& gx) {
  smooth([](auto& gx, const auto& y, const auto& gy) { gx = gy * (1 - y * y); }, gx, y, gy);
}

void sigmoid_backward(const ConstView& y, const ConstView& gy, const View& gx) {
  smooth([](auto& gx, const auto& y, const auto& gy) { gx = gy * (y * (1 - y)); }, gx, y, gy);
}

void relu_backward(const ConstView& y, const ConstView& gy, const View& gx) {
  exact([](auto y, auto gy) { return y <= 0 ? decltype(gy)(0) : gy; }, gx, y, gy);
}

// The slope is Phi(x) + x phi(x).
void gelu_backward(const ConstView& x, const ConstView& gy, const View& gx) {
  smooth(
      [](auto& gx, const auto& x, const auto& gy) {
        using C = scalar_t<std::decay_t<decltype(x)>>;
        const C scale = C(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
        gx = gy * (normal_cdf(x) + x * (C(-0.5) * x * x).exp() * scale);
      },
      gx, x, gy);
}

// With s = sigmoid(2 u), the slope is s (1 + x (1 - s) d(2 u)/dx).
void gelu_tanh_backward(const ConstView& x, const ConstView& gy, const View& gx) {
  smooth(
      [](auto& gx, const auto& x, const auto& gy) {
        using C = scalar_t<std::decay_t<decltype(x)>>;
        gx = 1 / (1 + gelu_tanh_exp(x));
        gx = gy * (gx * (1 + x * (1 - gx) * (C(gelu_tanh_linear) + C(3 * gelu_tanh_cubic) * x * x)));
      },
      gx, x, gy);
}

// With s = sigmoid(x), the slope is s (1 + x (1 - s)).
void silu_backward(const ConstView& x, const ConstView& gy, const View& gx) {
  smooth(
      [](auto& gx, const auto& x, const auto& gy) {
        gx = 1 / (1 + (-x).exp());
        gx = gy * (gx * (1 + x * (1 - gx)));
      },
      gx, x, gy);
}

void leaky_relu(double slope, const ConstView& x, const View& y) {
  exact([=](auto x) { return x > 0 ? x : x * static_cast<decltype(x)>(slope); }, y, x);
}

void leaky_relu_backward(double slope, const ConstView& saved, const ConstView& gy, const View& gx) {
  exact([=](auto v, auto gy) { return v > 0 ? gy : gy * static_cast<decltype(gy)>(slope); }, gx, saved, gy);
}

// With z = beta x, computes max(z, 0) + log1p(exp(-|z|)), which cannot overflow.
void softplus(double beta, double threshold, const ConstView& x, const View& y) {
  smooth(
      [=](auto& y, const auto& x) {
        using C = scalar_t<std::decay_t<decltype(x)>>;
        const C b = static_cast<C>(beta);
        y = ((x * b).max(C(0)) + (-(x * b).abs()).exp().log1p()) / b;
        y = (x * b > static_cast<C>(threshold)).select(x, y);
      },
      y, x);
}

// The slope is sigmoid(beta x).
void softplus_backward(double beta, double threshold, const ConstView& x, const ConstView& gy, const View& gx) {
  smooth(
      [=](auto& gx, const auto& x, const auto& gy) {
        using C = scalar_t<std::decay_t<decltype(x)>>;
        const C b = static_cast<C>(beta);
        gx = (x * b > static_cast<C>(threshold)).select(gy, gy / (1 + (-(x * b)).exp()));
      },
      gx, x, gy);
}

}  // namespace

const PointwiseKernels& pointwise_kernels() {
  static const PointwiseKernels all{
      .exp = exp,
      .log = log,
      .sqrt = sqrt,
      .rsqrt = rsqrt,
      .tanh = tanh,
      .sigmoid = sigmoid,
      .relu = relu,
      .gelu = gelu,
      .gelu_tanh = gelu_tanh,
      .silu = silu,
      .erf = erf,
      .sin = sin,
      .cos = cos,
      .log1p = log1p,
      .expm1 = expm1,
      .floor = floor,
      .ceil = ceil,
      .round = round,
      .abs = abs,
      .sign = sign,
      .clamp = clamp,
      .leaky_relu = leaky_relu,
      .softplus = softplus,
      .tanh_backward = tanh_backward,
      .sigmoid_backward = sigmoid_backward,
      .relu_backward = relu_backward,
      .gelu_backward = gelu_backward,
      .gelu_tanh_backward = gelu_tanh_backward,
      .silu_backward = silu_backward,
      .softplus_backward = softplus_backward,
      .leaky_relu_backward = leaky_relu_backward,
  };
  return all;
}

}  // namespace bytetape::cpu
