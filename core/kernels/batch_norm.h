#pragma once
#include "bytetape/core/kernels/epilogue.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/kernels/work.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Batch normalisation of x (n, c, h, w) over (n, h, w), fused: y = activation(bn(x) + residual). Images have one dtype.
// weight and bias are (c) or undefined; mean and the biased var are (c). Values per channel have x's dtype, or the
// dtype in which x is accumulated.

struct BatchNormStatisticsArgs {
  ConstView x;
  View mean, var;
  double momentum;  // moves these towards mean and unbiased variance; each may be undefined
  View running_mean, running_var;
  View batches;  // an i64 scalar to increment, or undefined
};
struct BatchNormApplyArgs {
  ConstView x, weight, bias, mean, var, residual;  // residual may be undefined
  double eps;
  Activation activation;
  View y;
};
/// The statistics and the result in training. The result's mean and var are those of the statistics. moved_bytes()
/// counts two passes over x, although GPUs read small images once.
struct BatchNormTrainArgs {
  BatchNormStatisticsArgs statistics;
  BatchNormApplyArgs result;
  std::uint64_t moved_bytes() const { return detail::bytes_of_fields(statistics) + detail::bytes_of_fields(result); }
};
// relu's gradient uses y. If y is undefined it uses bn(x), which is recomputed. gelu_tanh's gradient always uses bn(x),
// rounded to x's dtype. With gelu_tanh there is no residual: y and addend are undefined, and `masked` is defined.
struct BatchNormBackwardArgs {
  ConstView x, weight, bias, mean, var, y, gy;  // bias is needed to recompute bn(x); y may be undefined
  double eps;
  bool training;  // if true, mean and var depend on x
  Activation activation;
  // With y or gelu_tanh: the gradient of the activation's input. With addend only: gy + addend. May alias gy or addend,
  // except with gelu_tanh. gx may alias it.
  View masked;
  View gx, gw, gb;        // each may be undefined
  ConstView addend = {};  // added to gy first, and rounded; may be undefined
};

struct BatchNormKernels {
  static constexpr Epilogues epilogues{Activation::relu, Activation::gelu_tanh};

  Planned<BatchNormTrainArgs> batch_norm_train;
  void (*batch_norm_apply)(const BatchNormApplyArgs& args);
  Planned<BatchNormBackwardArgs> batch_norm_backward;
};

}  // namespace bytetape
