#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Of slices along a dim, which an index, i64 (m), counts. What is no slice of the tensor that is indexed is a fault
// (core/device/fault.h).

/// Slice j of y is slice index[j] of x, of the same dtype.
struct IndexSelectArgs {
  ConstView x, index;
  int dim;
  View y;
};
/// Slice i of y is the sum of the slices j of x with index[j] == i, added in their order; 0 where there is none. Both
/// are floats of one dtype. An index that is no slice of y adds nothing, and is no fault of this kernel.
struct IndexSumArgs {
  ConstView x, index;
  int dim;
  View y;
};

struct IndexingKernels {
  void (*index_select)(const IndexSelectArgs& args);
  Planned<IndexSumArgs> index_sum;
  /// y (m, classes) is 1 in column index[j] of row j, else 0; both i64 and row-major.
  void (*one_hot)(const ConstView& index, const View& y);
};

}  // namespace bytetape
