#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Batch normalisation over (n, h, w) of x (n, c, h, w); weight and bias (c) or undefined; mean and the biased variance
// (c). These may have x's dtype or the one that x is accumulated in.
struct BatchNormStatisticsArgs {
  ConstView x;
  View mean, var;
};
struct BatchNormBackwardArgs {
  ConstView x, weight, mean, var, gy;
  double eps;
  bool training;    // mean and var depend on x
  View gx, gw, gb;  // each may be undefined
};

struct NormKernels {
  Planned<BatchNormStatisticsArgs> batch_norm_statistics;
  void (*batch_norm_apply)(const ConstView& x, const ConstView& weight, const ConstView& bias, const ConstView& mean,
                           const ConstView& var, double eps, const View& y);
  Planned<BatchNormBackwardArgs> batch_norm_backward;
};

}  // namespace bytetape
