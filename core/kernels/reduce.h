#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

struct SumArgs {
  ConstView x;
  View y;
  double divisor = 1;  // of float sums, before they are rounded to y's dtype
};

/// y has x's rank, with 1 in every reduced dim.
struct ReduceKernels {
  Planned<SumArgs> sum;                            // y has x's dtype, or f32 for 16-bit floats; i64 for integers, bool
  void (*max)(const ConstView& x, const View& y);  // NaN wins
  void (*min)(const ConstView& x, const View& y);
  void (*argmax)(const ConstView& x, int dim, const View& y);  // y i64; first of equals; NaN wins
};

}  // namespace bytetape
