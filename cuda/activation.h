#pragma once
#include "bytetape/cuda/table.h"

// Where no kernel does it on the way.
namespace bytetape::cuda {

/// y = activation(y).
inline void activate(Activation activation, const View& y) {
  if (activation == Activation::relu) pointwise_kernels().relu(y, y);
}
/// The same gradients without an activation: gy as it came through that is in `masked`.
inline Conv2dWeightGradArgs through_activation(Conv2dWeightGradArgs a) {
  if (a.activation == Activation::none) return a;
  pointwise_kernels().relu_backward(a.y, a.gy, a.masked);
  a.gy = a.masked;
  a.activation = Activation::none;
  return a;
}

}  // namespace bytetape::cuda
