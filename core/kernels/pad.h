#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// y, which is dense, is x with before[d] elements of `value` ahead of it in each dim d, and behind it as many as y
/// then has more. x and y have one dtype, which has the value.
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
