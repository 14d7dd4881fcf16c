#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// Element by element, on inputs that are already broadcast to y's shape and have its dtype. Integers wrap around.
struct ArithmeticKernels {
  void (*add)(const ConstView& a, const ConstView& b, const View& y);
  void (*sub)(const ConstView& a, const ConstView& b, const View& y);
  void (*mul)(const ConstView& a, const ConstView& b, const View& y);
  void (*div)(const ConstView& a, const ConstView& b, const View& y);  // integers truncate; by zero gives 0
  void (*pow)(const ConstView& a, const ConstView& b, const View& y);
  void (*maximum)(const ConstView& a, const ConstView& b, const View& y);  // NaN wins
  void (*minimum)(const ConstView& a, const ConstView& b, const View& y);
  void (*neg)(const ConstView& x, const View& y);
  // ga = gy where a was taken or a number is NaN, half of it where a equals b, else 0
  void (*maximum_backward)(const ConstView& a, const ConstView& b, const ConstView& gy, const View& ga);
  void (*minimum_backward)(const ConstView& a, const ConstView& b, const ConstView& gy, const View& ga);
};

}  // namespace bytetape
