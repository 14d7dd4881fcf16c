#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Slices along a dim, selected by an index, i64 (m). An index out of range is a fault (core/device/fault.h).

/// Slice j of y is slice index[j] of x. Dtypes are equal.
struct IndexSelectArgs {
  ConstView x, index;
  int dim;
  View y;
};
/// Slice i of y is the sum of the slices j of x with index[j] == i, in order of j, or 0 if there are none. Both have
/// one floating dtype. An index out of range is ignored here; it is no fault of this kernel.
struct IndexSumArgs {
  ConstView x, index;
  int dim;
  View y;
};

struct IndexingKernels {
  void (*index_select)(const IndexSelectArgs& args);
  Planned<IndexSumArgs> index_sum;
  /// y (m, classes) is 1 in column index[j] of row j, else 0. Both are i64 and row-major.
  void (*one_hot)(const ConstView& index, const View& y);
};

}  // namespace bytetape
