#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Layer normalisation of the rows of x (rows, n), or of sum = x + residual. Tensors of this shape are row-major.
// weight, bias and their gradients are (n), mean and rstd = 1 / sqrt(var + eps) are (rows), of the dtype in which x is
// accumulated.

struct LayerNormArgs {
  ConstView x, weight, bias;  // weight and bias may be undefined
  double eps;
  View y, mean, rstd;
  ConstView residual = {};  // residual and sum: both or neither
  View sum = {};
};
// gx = the gradient of the normalised tensor + addend, each rounded. gx may alias addend.
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
