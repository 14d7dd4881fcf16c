#pragma once
#include "bytetape/core/random.h"
#include "bytetape/core/view.h"

namespace bytetape {

struct DropoutKernels {
  // y = keep ? x / (1 - p) : 0, kept as core/philox.h says; element i of the row-major order takes word i
  void (*dropout)(PhiloxState state, double p, const ConstView& x, const View& y);
};

}  // namespace bytetape
