#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// Elementwise. Inputs are broadcast to y's shape. All but `where` write bool.
struct CompareKernels {
  void (*eq)(const ConstView& a, const ConstView& b, const View& y);
  void (*ne)(const ConstView& a, const ConstView& b, const View& y);
  void (*lt)(const ConstView& a, const ConstView& b, const View& y);
  void (*le)(const ConstView& a, const ConstView& b, const View& y);
  void (*gt)(const ConstView& a, const ConstView& b, const View& y);
  void (*ge)(const ConstView& a, const ConstView& b, const View& y);
  void (*logical_and)(const ConstView& a, const ConstView& b, const View& y);  // a number other than 0 is true
  void (*logical_or)(const ConstView& a, const ConstView& b, const View& y);
  void (*logical_xor)(const ConstView& a, const ConstView& b, const View& y);
  void (*isnan)(const ConstView& x, const View& y);  // x is floating-point, as for isinf and isfinite
  void (*isinf)(const ConstView& x, const View& y);
  void (*isfinite)(const ConstView& x, const View& y);
  void (*where)(const ConstView& condition, const ConstView& a, const ConstView& b, const View& y);
};

}  // namespace bytetape
