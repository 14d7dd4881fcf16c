#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// y, dense, is x with before[d] elements of `value` before it in each dim d, and the rest of y's size after it. x and
/// y have one dtype, which can represent the value.
struct PadArgs {
  ConstView x;
  Dims before;
  Scalar value;
  View y;
};

/// The elements in row i and column j of the last two dims of y are x's if j - i is at most `diagonal` (lower triangle)
/// or at least `diagonal` (upper), else 0. Shapes and dtypes are equal.
struct TriangleArgs {
  ConstView x;
  std::int64_t diagonal;
  bool is_upper;
  View y;
};

struct PadKernels {
  void (*pad)(const PadArgs& args);
  void (*triangle)(const TriangleArgs& args);
};

}  // namespace bytetape
