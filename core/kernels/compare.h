#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// Elementwise. Inputs are broadcast to y's shape. Comparisons write bool.
struct CompareKernels {
  void (*eq)(const ConstView& a, const ConstView& b, const View& y);
  void (*ne)(const ConstView& a, const ConstView& b, const View& y);
  void (*lt)(const ConstView& a, const ConstView& b, const View& y);
  void (*le)(const ConstView& a, const ConstView& b, const View& y);
  void (*gt)(const ConstView& a, const ConstView& b, const View& y);
  void (*ge)(const ConstView& a, const ConstView& b, const View& y);
  void (*where)(const ConstView& condition, const ConstView& a, const ConstView& b, const View& y);
};

}  // namespace bytetape
