#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/kernels/conv.h"

// Activations that no library kernel applies. They run while the result is in the cache.
namespace bytetape::cpu {

/// Computes y = activation(z). y may be z.
void activate(Activation activation, const ConstView& z, const View& y);
/// Computes y = activation(y) in place.
inline void activate(Activation activation, const View& y) { activate(activation, y, y); }
/// Returns the gradient that a kernel without an activation reads, in its layout.
inline ConstView gy_in_kernel(const Conv2dWeightGradArgs& a) {
  return a.activation == Activation::none ? a.gy : ConstView(a.masked);
}
/// Returns the arguments for a kernel without an activation: gy has passed through the activation, into `masked`.
Conv2dWeightGradArgs through_activation(Conv2dWeightGradArgs a);

}  // namespace bytetape::cpu
