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

struct PadKernels {
  void (*pad)(const PadArgs& args);
};

}  // namespace bytetape
