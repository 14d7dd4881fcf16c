#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Layer normalisation of the rows of x (rows, n), row-major as y, gy and gx are. weight, bias and their gradients (n),
// mean and rstd = 1 / sqrt(var + eps) (rows) have the dtype that x is accumulated in.
struct LayerNormBackwardArgs {
  ConstView x, weight, mean, rstd, gy;  // weight may be undefined
  View gx, gw, gb;                      // each may be undefined
};

struct LayerNormKernels {
  // weight and bias may be undefined
  void (*layer_norm)(const ConstView& x, const ConstView& weight, const ConstView& bias, double eps, const View& y,
                     const View& mean, const View& rstd);
  Planned<LayerNormBackwardArgs> layer_norm_backward;
};

}  // namespace bytetape
