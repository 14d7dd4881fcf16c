#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// masked = gy as it came through the activation that made y, and gb (channels) = the sums over its rows. gy, y and
/// masked are row-major (rows, channels), and masked may be gy or y. Without an activation y and masked are undefined,
/// and the sums are of gy. gb has gy's dtype, or may be f32 where that has 16 bits.
struct BiasGradArgs {
  ConstView gy, y;
  View masked, gb;
  Activation activation = Activation::none;
};

struct ActivationKernels {
  Planned<BiasGradArgs> bias_grad;
};

}  // namespace bytetape
