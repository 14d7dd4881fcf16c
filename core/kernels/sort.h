#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// The first k elements of each row of x along dim, in order, where k is the size of dim in the results. Equal elements
/// stay in order. NaNs are equal and largest, and -0 equals 0 (core/sort_key.h).
struct SortArgs {
  ConstView x;
  int dim;
  bool descending;
  View values, indices;  // values may be undefined; indices are i64 places along dim
};

// pick and place move elements of one dtype along dim by an index, i64 of the shape of one of the tensors. Indices are
// those of sort: in range, and distinct in each row.
struct SortKernels {
  Planned<SortArgs> sort;
  /// y[i] = x[index[i]]
  void (*pick)(const ConstView& x, const ConstView& index, int dim, const View& y);
  /// y[index[i]] = x[i]. Other elements of y stay as they are.
  void (*place)(const ConstView& x, const ConstView& index, int dim, const View& y);
};

}  // namespace bytetape
