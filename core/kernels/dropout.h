#pragma once
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/random.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// y = keep ? x / (1 - p) : 0, with keep from core/philox.h. Element i in row-major order uses word i. x may be y.
struct DropoutArgs {
  PhiloxState state;
  double p;
  ConstView x;
  View y;
};

struct DropoutKernels {
  Planned<DropoutArgs> dropout;
};

}  // namespace bytetape
