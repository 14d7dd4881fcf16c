#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Layer normalisation of the rows of x (rows, n), row-major as all of that shape are, or of sum = x + residual. weight,
// bias and their gradients (n), mean and rstd = 1 / sqrt(var + eps) (rows) have the dtype that x is accumulated in.

struct LayerNormArgs {
  ConstView x, weight, bias;  // weight and bias may be undefined
  double eps;
  View y, mean, rstd;
  ConstView residual = {};  // both of these or neither
  View sum = {};
};
// gx = the gradient of what was normalised + addend, each rounded; gx may be written over addend.
struct LayerNormBackwardArgs {
  ConstView x, weight, mean, rstd, gy;  // weight may be undefined
  View gx, gw, gb;                      // each may be undefined
  ConstView addend = {};                // may be undefined
};

struct LayerNormKernels {
  void (*layer_norm)(const LayerNormArgs& args);
  Planned<LayerNormBackwardArgs> layer_norm_backward;
};

}  // namespace bytetape
