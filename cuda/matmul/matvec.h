#pragma once
#include "bytetape/core/kernels/matmul.h"

namespace bytetape::cuda {

/// Launches a product of up to four rows with a matrix whose columns are contiguous, as linear() has for one token.
/// Returns false, and launches nothing, if it is not such a product. Shapes, strides, dtypes and alignment decide.
bool matvec(const MatmulArgs& args);

}  // namespace bytetape::cuda
