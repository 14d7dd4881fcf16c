#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/kernels/pointwise.h"
#include "bytetape/cuda/table.h"

// Activations as separate launches, if no kernel applies them in its epilogue.
namespace bytetape::cuda {

/// Computes y = activation(z). y may be z.
inline void activate(Activation activation, const ConstView& z, const View& y) {
  if (activation == Activation::relu) pointwise_kernels().relu(z, y);
  if (activation == Activation::gelu_tanh) pointwise_kernels().gelu_tanh(z, y);
}
/// Computes y = activation(y) in place.
inline void activate(Activation activation, const View& y) { activate(activation, y, y); }
/// Applies the activation's gradient to gy, and stores the result in `masked`. Returns arguments with that gy and no
/// activation.
inline Conv2dWeightGradArgs through_activation(Conv2dWeightGradArgs a) {
  if (a.activation == Activation::none) return a;
  pointwise_kernels().relu_backward(a.y, a.gy, a.masked);
  a.gy = a.masked;
  a.activation = Activation::none;
  return a;
}

}  // namespace bytetape::cuda
