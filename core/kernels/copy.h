#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

struct CopyKernels {
  void (*fill)(Scalar value, const View& y);
  void (*copy)(const ConstView& x, const View& y);  // converts the dtype; same shape
  void (*arange)(Scalar start, Scalar step, const View& y);
};

}  // namespace bytetape
