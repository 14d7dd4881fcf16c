#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/kernels/pointwise.h"
#include "bytetape/cuda/table.h"

// Where no kernel does it on the way.
namespace bytetape::cuda {

/// y = activation(z), which may be y.
inline void activate(Activation activation, const ConstView& z, const View& y) {
  if (activation == Activation::relu) pointwise_kernels().relu(z, y);
  if (activation == Activation::gelu_tanh) pointwise_kernels().gelu_tanh(z, y);
}
/// The same in place.
inline void activate(Activation activation, const View& y) { activate(activation, y, y); }
/// The same gradients without an activation: gy as it came through that is in `masked`.
inline Conv2dWeightGradArgs through_activation(Conv2dWeightGradArgs a) {
  if (a.activation == Activation::none) return a;
  pointwise_kernels().relu_backward(a.y, a.gy, a.masked);
  a.gy = a.masked;
  a.activation = Activation::none;
  return a;
}

}  // namespace bytetape::cuda
