#pragma once
// The result of batch normalisation, from the numbers of the channels.
#include "bytetape/cuda/norm/batch_norm.cuh"
#include "bytetape/cuda/pointwise/gelu.cuh"

namespace bytetape::cuda {

/// Computes y from x, or from x and a residual if there are two inputs.
template <class T, int n>
struct Forward : Normalise<T> {
  static constexpr int inputs = n;
  using C = compute_t<T>;
  Activation activation;

  explicit Forward(const BatchNormApplyArgs& a) : Normalise<T>(a), activation(a.activation) {}
  template <class Numbers>
  __device__ C operator()(const Numbers& of_channel, int k, const C (&x)[n]) const {
    C y = of_channel(k, x[0]);
    if constexpr (n == 2) y += x[1];
    if (activation == Activation::gelu_tanh) return GeluTanh<T>()(widened(narrowed<T>(y)));
    return activation == Activation::relu && y < 0 ? C(0) : y;
  }
};

}  // namespace bytetape::cuda
