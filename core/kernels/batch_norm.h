#pragma once
#include "bytetape/core/kernels/epilogue.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Batch normalisation over (n, h, w) of x (n, c, h, w), and what is done with it in the same pass: y = activation(bn(x)
// + residual). Images have one dtype; weight and bias (c) or undefined; mean and the biased variance (c). All that is a
// number a channel may have x's dtype or the one that x is accumulated in.

struct BatchNormStatisticsArgs {
  ConstView x;
  View mean, var;
  double momentum;  // moves these towards the mean and the unbiased variance; each may be undefined
  View running_mean, running_var;
  View batches;  // an i64 scalar that counts up, or undefined
};
struct BatchNormApplyArgs {
  ConstView x, weight, bias, mean, var, residual;  // residual may be undefined
  double eps;
  Activation activation;
  View y;
};
// Where gy comes through an activation, it does so by y; without y it does by bn(x), which is computed once more.
struct BatchNormBackwardArgs {
  ConstView x, weight, bias, mean, var, y, gy;  // bias is read where bn(x) is computed, y may be undefined
  double eps;
  bool training;  // mean and var depend on x
  Activation activation;
  View masked;            // with y: gy as it came through; with addend alone: the sum; may be written over either
  View gx, gw, gb;        // each may be undefined
  ConstView addend = {};  // what is added to gy first, and rounded; may be undefined
};

struct BatchNormKernels {
  static constexpr Epilogues epilogues{Activation::relu};

  Planned<BatchNormStatisticsArgs> batch_norm_statistics;
  void (*batch_norm_apply)(const BatchNormApplyArgs& args);
  Planned<BatchNormBackwardArgs> batch_norm_backward;
};

}  // namespace bytetape
