#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

struct SumArgs {
  ConstView x;
  View y;
  double divisor = 1;  // divides float sums before they are rounded to y's dtype
};

/// The largest or smallest elements along dim: the values, in x's dtype, and their indices, in i64. `values` may be
/// undefined. Otherwise its strides are those of `indices`.
using ReduceWithIndices = void(const ConstView& x, int dim, const View& values, const View& indices);

/// y has x's rank, with size 1 in every reduced dim.
struct ReduceKernels {
  // y: x's dtype, or f32 for 16-bit floats; i64 for integers and bool, which wraps around. prod has no divisor.
  Planned<SumArgs> sum, prod;
  void (*max)(const ConstView& x, const View& y);  // NaN is propagated
  void (*min)(const ConstView& x, const View& y);
  ReduceWithIndices *argmax, *argmin;  // the first of equals; NaN counts as largest, and as smallest
};

}  // namespace bytetape
