#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/kernels/conv.h"

// Activations that no library kernel applies. They run while the result is in the cache.
namespace bytetape::cpu {

/// Computes y = activation(z). y may be z.
void activate(Activation activation, const ConstView& z, const View& y);
/// Computes y = activation(y) in place.
inline void activate(Activation activation, const View& y) { activate(activation, y, y); }
/// Returns the arguments for a kernel without an activation: gy has passed through the activation, into `masked`.
Conv2dWeightGradArgs through_activation(Conv2dWeightGradArgs a);

}  // namespace bytetape::cpu
