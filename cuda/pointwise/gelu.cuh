#pragma once
// The tanh approximation of gelu, as x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3). Numerically stable for
// both signs.
#include "bytetape/core/kernels/pointwise.h"

namespace bytetape::cuda {

/// Returns sigmoid(2 u).
template <class C>
__device__ C gelu_tanh_cdf(C x) {
  return 1 / (1 + ::exp(x * (C(-gelu_tanh_linear) - C(gelu_tanh_cubic) * x * x)));
}

struct GeluTanh {
  template <class C>
  __device__ C operator()(C x) const {
    return x * gelu_tanh_cdf(x);
  }
};
// With s = sigmoid(2 u), the slope is s (1 + x (1 - s) d(2 u)/dx).
struct GeluTanhBackward {
  template <class C>
  __device__ C operator()(C x, C gy) const {
    const C s = gelu_tanh_cdf(x);
    return gy * (s * (1 + x * (1 - s) * (C(gelu_tanh_linear) + C(3 * gelu_tanh_cubic) * x * x)));
  }
};

}  // namespace bytetape::cuda
