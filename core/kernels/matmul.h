#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// y (b, m, n) = activation(a (b, m, k) @ b (b, k, n) + bias), which may be undefined and else is broadcast to y.
struct MatmulArgs {
  ConstView a, b, bias;
  View y;
  Activation activation = Activation::none;
};

struct MatmulKernels {
  Planned<MatmulArgs> matmul;
};

}  // namespace bytetape
