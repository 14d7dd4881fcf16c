#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/kernels/work.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Elements along a dim, selected by an index, i64, of any rank from 1 on. In other dims, index is at most as large as
// the tensor that it selects from. An index out of range is a fault (core/device/fault.h).

/// y, row-major, has index's shape. An element of y is x's element at the same position, except that its position in
/// dim is the index. Dtypes are equal.
struct GatherArgs {
  ConstView x, index;
  int dim;
  View y;

  /// Reads as much of x as it writes.
  std::uint64_t moved_bytes() const { return bytetape::moved_bytes(index) + 2 * bytetape::moved_bytes(y); }
};
/// The inverse. Each element of x, which has index's shape and y's dtype, goes to the place in y that index selects. x
/// may be a constant. If `keeps_on_fault`, a fault leaves y unchanged; else elements without a place are left out.
struct ScatterArgs {
  ConstView x, index;
  int dim;
  View y;
  bool keeps_on_fault;

  /// Writes an element of y for each index.
  std::uint64_t moved_bytes() const {
    return bytetape::moved_bytes(x) + bytetape::moved_bytes(index) +
           static_cast<std::uint64_t>(index.numel()) * size_of(y.dtype);
  }
};

struct GatherKernels {
  void (*gather)(const GatherArgs& args);
  Planned<ScatterArgs> scatter;      // replaces elements; the last along dim wins
  Planned<ScatterArgs> scatter_add;  // adds to elements, in a fixed order; numbers, of which integers wrap around
};

}  // namespace bytetape
