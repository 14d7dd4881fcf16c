#pragma once
#include "bytetape/core/cpu/table.h"

// What no library applies: in place, while it is in a cache.
namespace bytetape::cpu {

/// y = activation(y).
inline void activate(Activation activation, const View& y) {
  if (activation == Activation::relu) kernels().relu(y, y);
}
/// The same gradients without an activation: gy as it came through that is in `masked`.
inline Conv2dWeightGradArgs through_activation(Conv2dWeightGradArgs a) {
  if (a.activation == Activation::none) return a;
  kernels().relu_backward(a.y, a.gy, a.masked);
  a.gy = a.masked;
  a.activation = Activation::none;
  return a;
}

}  // namespace bytetape::cpu
