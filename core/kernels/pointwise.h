#pragma once
#include <numbers>

#include "bytetape/core/view.h"

namespace bytetape {

/// In gelu_tanh, 2 u = x * (gelu_tanh_linear + gelu_tanh_cubic * x * x).
inline constexpr double gelu_tanh_linear = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi,
                        gelu_tanh_cubic = 0.044715 * gelu_tanh_linear;

/// Elementwise functions of one input. x, y and gradients have one shape and dtype. A backward kernel takes what its
/// rule saves: the result y or the input x.
struct PointwiseKernels {
  void (*exp)(const ConstView& x, const View& y);
  void (*log)(const ConstView& x, const View& y);
  void (*sqrt)(const ConstView& x, const View& y);
  void (*rsqrt)(const ConstView& x, const View& y);
  void (*tanh)(const ConstView& x, const View& y);
  void (*sigmoid)(const ConstView& x, const View& y);
  void (*relu)(const ConstView& x, const View& y);
  void (*gelu)(const ConstView& x, const View& y);  // exact: x * Phi(x)
  // x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3), which equals 0.5 x (1 + tanh(u))
  void (*gelu_tanh)(const ConstView& x, const View& y);
  void (*silu)(const ConstView& x, const View& y);  // x * sigmoid(x)
  void (*erf)(const ConstView& x, const View& y);
  void (*sin)(const ConstView& x, const View& y);
  void (*cos)(const ConstView& x, const View& y);
  void (*log1p)(const ConstView& x, const View& y);  // log(1 + x), accurate near 0
  void (*expm1)(const ConstView& x, const View& y);  // exp(x) - 1, accurate near 0
  void (*floor)(const ConstView& x, const View& y);  // copies integers, as ceil and round do
  void (*ceil)(const ConstView& x, const View& y);
  void (*round)(const ConstView& x, const View& y);  // halves go to the even neighbour
  void (*abs)(const ConstView& x, const View& y);
  void (*sign)(const ConstView& x, const View& y);
  void (*clamp)(Scalar low, Scalar high, const ConstView& x, const View& y);  // NaN stays NaN
  void (*leaky_relu)(double slope, const ConstView& x, const View& y);        // x > 0 ? x : slope * x
  // log(1 + exp(beta x)) / beta, or x if beta x > threshold
  void (*softplus)(double beta, double threshold, const ConstView& x, const View& y);
  void (*tanh_backward)(const ConstView& y, const ConstView& gy, const View& gx);
  void (*sigmoid_backward)(const ConstView& y, const ConstView& gy, const View& gx);
  void (*relu_backward)(const ConstView& y, const ConstView& gy, const View& gx);
  void (*gelu_backward)(const ConstView& x, const ConstView& gy, const View& gx);
  void (*gelu_tanh_backward)(const ConstView& x, const ConstView& gy, const View& gx);
  void (*silu_backward)(const ConstView& x, const ConstView& gy, const View& gx);
  void (*softplus_backward)(double beta, double threshold, const ConstView& x, const ConstView& gy, const View& gx);
  // `saved` is x, or may be y if slope >= 0
  void (*leaky_relu_backward)(double slope, const ConstView& saved, const ConstView& gy, const View& gx);
};

}  // namespace bytetape
