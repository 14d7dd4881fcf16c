#pragma once
#include "bytetape/core/kernels/matmul.h"

namespace bytetape::cuda {

/// Launches a product, for kernels that consist of products. `ws` has at least plan(args).workspace bytes.
void multiply(const MatmulArgs& args, Workspace ws);

}  // namespace bytetape::cuda
