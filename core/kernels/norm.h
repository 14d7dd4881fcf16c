#pragma once
#include <cstddef>

#include "bytetape/core/view.h"

namespace bytetape {

/// Batch normalisation over (n, h, w) of x (n, c, h, w); weight and bias (c) or undefined; mean and the biased
/// variance (c). These may have x's dtype or the one that x is accumulated in.
struct NormKernels {
  std::size_t (*batch_norm_workspace)(const ConstView& x);
  void (*batch_norm_statistics)(const ConstView& x, const View& mean, const View& var, Workspace ws);
  void (*batch_norm_apply)(const ConstView& x, const ConstView& weight, const ConstView& bias, const ConstView& mean,
                           const ConstView& var, double eps, const View& y);
  // training: mean and var depend on x. gx, gw and gb may be undefined.
  void (*batch_norm_backward)(const ConstView& x, const ConstView& weight, const ConstView& mean, const ConstView& var,
                              const ConstView& gy, double eps, bool training, const View& gx, const View& gw,
                              const View& gb, Workspace ws);
};

}  // namespace bytetape
