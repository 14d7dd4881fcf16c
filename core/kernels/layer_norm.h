#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Layer normalisation of the rows of x (rows, n), or of sum = x + residual. Tensors of this shape are row-major.
// weight, bias and their gradients are (n), mean and rstd = 1 / sqrt(var + eps) are (rows), of the dtype in which x is
// accumulated. Forward also takes both weight and bias in the dtype of x. x, y and their gradients may be 16-bit if
// residual and sum are f32.

struct LayerNormArgs {
  ConstView x, weight, bias;  // weight and bias may be undefined
  double eps;
  View y, mean, rstd;
  ConstView residual = {};  // residual and sum: both or neither
  View sum = {};
};
// gx = the gradient of the normalised tensor + addend, each rounded. gx may alias addend. x is the normalised tensor.
struct LayerNormBackwardArgs {
  ConstView x, weight, mean, rstd, gy;  // weight may be undefined
  View gx, gw, gb;                      // each may be undefined
  ConstView addend = {};                // may be undefined
  View narrow_gx = {};                  // gx in the dtype of gy, if that differs; may be undefined
};

struct LayerNormKernels {
  void (*layer_norm)(const LayerNormArgs& args);
  Planned<LayerNormBackwardArgs> layer_norm_backward;
};

}  // namespace bytetape
