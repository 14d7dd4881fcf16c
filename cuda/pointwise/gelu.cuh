#pragma once
// The tanh approximation of gelu, as x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3). Numerically stable for
// both signs. T is the type in which the result is stored.
#include <numbers>

#include "bytetape/core/kernels/pointwise.h"
#include "bytetape/cuda/pointwise/approximate.cuh"

namespace bytetape::cuda {

/// Returns sigmoid(2 u).
template <class T, class C>
__device__ C gelu_tanh_cdf(C x) {
  constexpr double unit = approximates<T> ? std::numbers::log2e : 1;  // approximate_exp2() has base 2
  const C power = x * (C(-gelu_tanh_linear * unit) - C(gelu_tanh_cubic * unit) * x * x);
  if constexpr (approximates<T>)
    return approximate_reciprocal(1 + approximate_exp2(power));
  else
    return 1 / (1 + ::exp(power));
}

template <class T>
struct GeluTanh {
  template <class C>
  __device__ C operator()(C x) const {
    return x * gelu_tanh_cdf<T>(x);
  }
};
// With s = sigmoid(2 u), the slope is s (1 + x (1 - s) d(2 u)/dx).
template <class T>
struct GeluTanhBackward {
  template <class C>
  __device__ C operator()(C x, C gy) const {
    const C s = gelu_tanh_cdf<T>(x);
    return gy * (s * (1 + x * (1 - s) * (C(gelu_tanh_linear) + C(3 * gelu_tanh_cubic) * x * x)));
  }
};

}  // namespace bytetape::cuda
