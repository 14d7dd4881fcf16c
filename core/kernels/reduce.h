#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

struct SumArgs {
  ConstView x;
  View y;
  double divisor = 1;  // divides float sums before they are rounded to y's dtype
};

/// y has x's rank, with size 1 in every reduced dim.
struct ReduceKernels {
  Planned<SumArgs> sum;                            // y: x's dtype, or f32 for 16-bit floats; i64 for integers and bool
  void (*max)(const ConstView& x, const View& y);  // NaN is propagated
  void (*min)(const ConstView& x, const View& y);
  void (*argmax)(const ConstView& x, int dim, const View& y);  // y is i64; first of equals; NaN counts as largest
};

}  // namespace bytetape
