#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// Softmax along dim. The backward kernels read the result y of their forward kernel.
struct SoftmaxKernels {
  void (*softmax)(const ConstView& x, int dim, const View& y);
  void (*log_softmax)(const ConstView& x, int dim, const View& y);
  void (*softmax_backward)(const ConstView& y, const ConstView& gy, int dim, const View& gx);
  void (*log_softmax_backward)(const ConstView& y, const ConstView& gy, int dim, const View& gx);
};

}  // namespace bytetape
