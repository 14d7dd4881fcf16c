#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/kernels/work.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Slices along a dim, selected by an index, i64 (m). An index out of range is a fault (core/device/fault.h).

/// No index is `skipped`.
inline constexpr std::int64_t no_index = -1;

/// Slice j of y is slice index[j] of x, or 0 if index[j] == skipped. Dtypes are equal.
struct IndexSelectArgs {
  ConstView x, index;
  int dim;
  View y;
  std::int64_t skipped = no_index;

  /// Reads as much of x as it writes.
  std::uint64_t moved_bytes() const { return bytetape::moved_bytes(index) + 2 * bytetape::moved_bytes(y); }
};
/// Slice i of y is the sum of the slices j of x with index[j] == i, or 0 if there are none or i == skipped. The order
/// of the summands is fixed. Both have one dtype of numbers; integers wrap around. An index out of range is ignored
/// here; it is no fault of this kernel.
struct IndexSumArgs {
  ConstView x, index;
  int dim;
  View y;
  std::int64_t skipped = no_index;
};
/// Slice index[j] of y becomes slice j of x, the last one if indices repeat, or gets the slices j of x added, in a
/// fixed order. Slices of x with index[j] == skipped are left out. Dtypes are equal. After a fault y is unchanged.
struct IndexWriteArgs {
  ConstView x, index;
  int dim;
  View y;
  std::int64_t skipped = no_index;

  /// Writes as much of y as it reads of x.
  std::uint64_t moved_bytes() const { return bytetape::moved_bytes(index) + 2 * bytetape::moved_bytes(x); }
};

/// All are i64 (n): y[j] = base[j] * size + index[j], as the number of an element in two dims, of which the second has
/// `size` elements. base may be undefined, and counts as 0. A negative index[j] counts from the end, and is in
/// [-size, size). For others there is a fault.
struct FlatIndexArgs {
  ConstView base, index;
  std::int64_t size;
  View y;
};

struct IndexingKernels {
  void (*index_select)(const IndexSelectArgs& args);
  Planned<IndexSumArgs> index_sum;
  Planned<IndexWriteArgs> index_copy;
  Planned<IndexWriteArgs> index_add;  // numbers; integers wrap around
  void (*flat_index)(const FlatIndexArgs& args);
  /// y (m, classes) is 1 in column index[j] of row j, else 0. Both are i64 and row-major.
  void (*one_hot)(const ConstView& index, const View& y);
};

}  // namespace bytetape
