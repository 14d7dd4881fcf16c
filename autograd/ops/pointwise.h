#pragma once
#include <optional>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Pointwise functions
/// Elementwise functions of a floating-point tensor, differentiable to any order. abs, clamp, floor, ceil and round
/// also take integers. Functions whose names end in _ work in place: they write into x and return x. docs/ops.md lists
/// the dtypes under Autocast.
///
/// Throws DTypeError if x has a dtype that the function does not take.
///
/// In-place functions throw AutogradError if x is a leaf that requires grad, or a view on the tape whose base is still
/// in use. They throw ValueError if elements of x share memory.
/// @{

Tensor exp(const Tensor& x);
/// The natural logarithm.
Tensor log(const Tensor& x);
/// log(1 + x), accurate also near 0.
Tensor log1p(const Tensor& x);
/// exp(x) - 1, accurate also near 0.
Tensor expm1(const Tensor& x);
/// The sine of x in radians.
Tensor sin(const Tensor& x);
/// The cosine of x in radians.
Tensor cos(const Tensor& x);
Tensor sqrt(const Tensor& x);
/// 1 / sqrt(x).
Tensor rsqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
/// 1 / (1 + exp(-x)).
Tensor sigmoid(const Tensor& x);
/// max(x, 0). The gradient at 0 is 0, as in PyTorch.
Tensor relu(const Tensor& x);
/// x if x > 0, else x * negative_slope (Maas, Hannun & Ng, "Rectifier nonlinearities improve neural network acoustic
/// models", 2013). The gradient at 0 is the slope, as in PyTorch.
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// log(1 + exp(beta x)) / beta, a smooth relu (Dugas et al., "Incorporating second-order functional knowledge for
/// better option pricing", 2000). Returns x if beta x > threshold. Beyond the default threshold, the formula rounds to
/// x in f32.
/// Throws ValueError if beta is 0.
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
/// The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
Tensor erf(const Tensor& x);
/// x * Phi(x), with Phi the standard normal distribution function (Hendrycks & Gimpel, "Gaussian error linear units",
/// 2016).
Tensor gelu(const Tensor& x);
/// Selects Phi in gelu(): exact (none), or approximated by 0.5 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (tanh).
enum class Approximate { none, tanh };
constexpr const char* name_of(Approximate a) { return a == Approximate::none ? "none" : "tanh"; }
/// x * Phi(x), exact or approximate (`approximate` of torch.nn.functional.gelu).
Tensor gelu(const Tensor& x, Approximate approximate);
/// x * sigmoid(x) (Elfwing, Uchibe & Doya, "Sigmoid-weighted linear units", 2018).
Tensor silu(const Tensor& x);
Tensor abs(const Tensor& x);
/// The sign: -1, 0 or 1. Its gradient is 0.
Tensor sign(const Tensor& x);
/// The largest integer that is not above x, in x's dtype. Integers are copied. The gradient is 0.
Tensor floor(const Tensor& x);
/// The smallest integer that is not below x, in x's dtype. Integers are copied. The gradient is 0.
Tensor ceil(const Tensor& x);
/// The nearest integer, in x's dtype. Halves are rounded to the even integer. Integers are copied. The gradient is 0.
Tensor round(const Tensor& x);
/// min(max(x, low), high). A missing bound, `{}`, does not limit x.
/// Throws ValueError if low > high, or if a bound is NaN.
/// Throws DTypeError if x's dtype cannot represent a bound.
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = {});
/// clamp(x, low) under PyTorch's name.
inline Tensor clamp_min(const Tensor& x, Scalar low) { return clamp(x, low); }
/// clamp(x, {}, high) under PyTorch's name.
inline Tensor clamp_max(const Tensor& x, Scalar high) { return clamp(x, {}, high); }

Tensor exp_(const Tensor& x);
Tensor log_(const Tensor& x);
Tensor log1p_(const Tensor& x);
Tensor expm1_(const Tensor& x);
Tensor sin_(const Tensor& x);
Tensor cos_(const Tensor& x);
Tensor sqrt_(const Tensor& x);
Tensor rsqrt_(const Tensor& x);
Tensor tanh_(const Tensor& x);
Tensor sigmoid_(const Tensor& x);
Tensor relu_(const Tensor& x);
Tensor leaky_relu_(const Tensor& x, double negative_slope = 0.01);
Tensor erf_(const Tensor& x);
Tensor silu_(const Tensor& x);
Tensor abs_(const Tensor& x);
Tensor floor_(const Tensor& x);
Tensor ceil_(const Tensor& x);
Tensor round_(const Tensor& x);
Tensor clamp_(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = {});
inline Tensor clamp_min_(const Tensor& x, Scalar low) { return clamp_(x, low); }
inline Tensor clamp_max_(const Tensor& x, Scalar high) { return clamp_(x, {}, high); }
/// @}

}  // namespace bytetape
