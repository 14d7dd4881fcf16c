#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// through = the gradient of the activation's input, and gb (channels) = its sum over the rows.
/// gy, saved and through are row-major (rows, channels). through may be gy or saved. saved is the activation's result,
/// or for gelu_tanh its input. Without an activation saved and through are undefined, and gb sums gy. gb has gy's
/// dtype, or f32 if gy is 16-bit. Supports every activation that is an epilogue of a family (core/kernels/epilogue.h).
struct BiasGradArgs {
  ConstView gy, saved;
  View through, gb;
  Activation activation = Activation::none;
};

struct ActivationKernels {
  Planned<BiasGradArgs> bias_grad;
};

}  // namespace bytetape
