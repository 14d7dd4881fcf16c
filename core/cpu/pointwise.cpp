#include <cmath>
#include <limits>
#include <numbers>
#include <unsupported/Eigen/SpecialFunctions>

#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/integers.h"

namespace bytetape::cpu {
namespace {

template <class T>
void gather(const char* x, std::int64_t step, std::int64_t n, compute_t<T>* to) {
  if (detail::Source<T>::direct(step))
    std::memcpy(to, x, static_cast<std::size_t>(n) * sizeof(T));
  else
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<compute_t<T>>(*reinterpret_cast<const T*>(x + i * step));
}

template <class T>
void scatter(const compute_t<T>* from, std::int64_t n, char* y, std::int64_t step) {
  if (detail::Source<T>::direct(step))
    std::memcpy(y, from, static_cast<std::size_t>(n) * sizeof(T));
  else
    for (std::int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(y + i * step) = static_cast<T>(from[i]);
}

/// A chunk of computed elements, and its first `n` of them as Eigen sees them.
template <class C>
struct Chunk {
  alignas(64) C values[detail::chunk];
  Eigen::Map<Array<C>, Eigen::Aligned64> first(std::int64_t n) { return {values, n}; }
};

/// f(y, x...), which sets y, for functions whose last bits Eigen computes otherwise in vectors than one by one: always
/// in whole vectors, so that an element's bits depend neither on its place nor on the thread count.
template <class T, class F, class... X>
void in_whole_vectors(const F& f, const View& y, const X&... x) {
  using C = compute_t<T>;
  constexpr std::size_t K = sizeof...(X);
  constexpr std::int64_t widest = 64 / sizeof(C);
  const auto row = [&](std::int64_t n, const auto& p, const auto& step) {
    std::array<Chunk<C>, K> in;
    Chunk<C> out;
    for (std::int64_t at = 0; at < n; at += detail::chunk) {
      const std::int64_t m = std::min(detail::chunk, n - at), whole = (m + widest - 1) / widest * widest;
      for (std::size_t k = 0; k < K; ++k) {
        gather<T>(p[k + 1] + at * step[k + 1], step[k + 1], m, in[k].values);
        std::fill(in[k].values + m, in[k].values + whole, C{1});
      }
      auto result = out.first(whole);
      std::apply([&](auto&... chunks) { f(result, chunks.first(whole)...); }, in);
      scatter<T>(out.values, m, p[0] + at * step[0], step[0]);
    }
  };
  for_each_row(make_loop<K + 1>({&y, &x...}), row, grain / 4);
}

/// The same for a floating y; f is generic over the computed type.
template <class F, class... X>
void smooth(const F& f, const View& y, const X&... x) {
  visit_floating(y.dtype, [&](auto zero) { in_whole_vectors<decltype(zero)>(f, y, x...); });
}

/// y = f(x...) for a floating y and an f of single numbers, whose bits are the same alone and in vectors.
template <class F, class... X>
void exact(const F& f, const View& y, const X&... x) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof...(X) == 1)
      elementwise<T, T>([&](const auto& a) { return a.unaryExpr(f); }, y, x...);
    else
      elementwise<T, T, T>([&](const auto& a, const auto& b) { return a.binaryExpr(b, f); }, y, x...);
  });
}

template <class X>
using scalar_t = typename X::Scalar;

/// Phi, the distribution function of the standard normal.
template <class X>
auto normal_cdf(const X& x) {
  using C = scalar_t<X>;
  return C(0.5) * (C(1) + (x * C(std::numbers::sqrt2 / 2)).erf());
}

void exp(const ConstView& x, const View& y) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    // Eigen stops at the least normal number; below it the result is 0, as for -infinity.
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
    // Eigen takes what is below the least normal number for that number; lifted above, it is exact.
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

// Eigen's vectorised square root is approximate (and NaN at infinity); std::sqrt rounds once, and GCC vectorises it.
void sqrt(const ConstView& x, const View& y) {
  exact([](auto v) { return std::sqrt(v); }, y, x);
}
void rsqrt(const ConstView& x, const View& y) {
  exact([](auto v) { return 1 / std::sqrt(v); }, y, x);
}

void tanh(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = x.tanh(); }, y, x);
}

// For large -x, exp overflows to infinity and the quotient is 0: stable on both sides.
void sigmoid(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = 1 / (1 + (-x).exp()); }, y, x);
}

void relu(const ConstView& x, const View& y) {
  exact([](auto v) { return v < 0 ? decltype(v)(0) : v; }, y, x);
}

void gelu(const ConstView& x, const View& y) {
  smooth([](auto& y, const auto& x) { y = x * normal_cdf(x); }, y, x);
}

/// exp(-2 u) of gelu_tanh.
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

// d(x Phi(x))/dx = Phi(x) + x phi(x)
void gelu_backward(const ConstView& x, const ConstView& gy, const View& gx) {
  smooth(
      [](auto& gx, const auto& x, const auto& gy) {
        using C = scalar_t<std::decay_t<decltype(x)>>;
        const C scale = C(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
        gx = gy * (normal_cdf(x) + x * (C(-0.5) * x * x).exp() * scale);
      },
      gx, x, gy);
}

// With s = sigmoid(2 u): s (1 + x (1 - s) d(2 u)/dx)
void gelu_tanh_backward(const ConstView& x, const ConstView& gy, const View& gx) {
  smooth(
      [](auto& gx, const auto& x, const auto& gy) {
        using C = scalar_t<std::decay_t<decltype(x)>>;
        gx = 1 / (1 + gelu_tanh_exp(x));
        gx = gy * (gx * (1 + x * (1 - gx) * (C(gelu_tanh_linear) + C(3 * gelu_tanh_cubic) * x * x)));
      },
      gx, x, gy);
}

// With s = sigmoid(x): s (1 + x (1 - s))
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

}  // namespace

PointwiseKernels pointwise_kernels() {
  return {
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
      .abs = abs,
      .sign = sign,
      .clamp = clamp,
      .leaky_relu = leaky_relu,
      .tanh_backward = tanh_backward,
      .sigmoid_backward = sigmoid_backward,
      .relu_backward = relu_backward,
      .gelu_backward = gelu_backward,
      .gelu_tanh_backward = gelu_tanh_backward,
      .silu_backward = silu_backward,
      .leaky_relu_backward = leaky_relu_backward,
  };
}

}  // namespace bytetape::cpu
