#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// Elementwise. Inputs are broadcast to y's shape and have its dtype. Integers wrap around.
struct ArithmeticKernels {
  void (*add)(const ConstView& a, const ConstView& b, const View& y);
  void (*sub)(const ConstView& a, const ConstView& b, const View& y);
  void (*mul)(const ConstView& a, const ConstView& b, const View& y);
  void (*div)(const ConstView& a, const ConstView& b, const View& y);  // integers truncate; x / 0 is 0
  void (*pow)(const ConstView& a, const ConstView& b, const View& y);
  void (*maximum)(const ConstView& a, const ConstView& b, const View& y);  // NaN is propagated
  void (*minimum)(const ConstView& a, const ConstView& b, const View& y);
  void (*neg)(const ConstView& x, const View& y);
  // ga = gy if a is the result or an operand is NaN, gy / 2 if a equals b, else 0
  void (*maximum_backward)(const ConstView& a, const ConstView& b, const ConstView& gy, const View& ga);
  void (*minimum_backward)(const ConstView& a, const ConstView& b, const ConstView& gy, const View& ga);
};

}  // namespace bytetape
