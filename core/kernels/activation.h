#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// through = gy as it came through an activation, and gb (channels) = the sums over its rows. gy, saved and through are
/// row-major (rows, channels), and through may be gy or saved: the activation's result, or of gelu_tanh its input. Any
/// activation that is an epilogue of a family (core/kernels/epilogue.h) may be given.
/// Without an activation saved and through are undefined, and the sums are of gy. gb has gy's dtype, or may be f32
/// where that has 16 bits.
struct BiasGradArgs {
  ConstView gy, saved;
  View through, gb;
  Activation activation = Activation::none;
};

struct ActivationKernels {
  Planned<BiasGradArgs> bias_grad;
};

}  // namespace bytetape
