#pragma once
#include "bytetape/core/kernels/matmul.h"

namespace bytetape::cuda {

/// The launch of a product, for kernels made of products; `ws` has at least plan(args).workspace bytes.
void multiply(const MatmulArgs& args, Workspace ws);

}  // namespace bytetape::cuda
