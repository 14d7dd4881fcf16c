#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// Running results along dim.
struct ScanKernels {
  /// y[i] is the sum of x[0] to x[i]; if reversed, of x[i] to the last. y: x's dtype, i64 for integers and bool.
  void (*cumsum)(const ConstView& x, int dim, bool is_reversed, const View& y);
};

}  // namespace bytetape
