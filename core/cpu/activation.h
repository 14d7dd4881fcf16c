#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/kernels/conv.h"

// What no library applies: in place, while it is in a cache.
namespace bytetape::cpu {

/// y = activation(z), which may be y.
void activate(Activation activation, const ConstView& z, const View& y);
/// The same in place.
inline void activate(Activation activation, const View& y) { activate(activation, y, y); }
/// The same gradients without an activation: gy as it came through that is in `masked`.
Conv2dWeightGradArgs through_activation(Conv2dWeightGradArgs a);

}  // namespace bytetape::cpu
