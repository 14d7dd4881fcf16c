#pragma once
#include "bytetape/core/view.h"

namespace bytetape::cuda {

/// Launches the index of the largest element of each long row, or of the smallest (core/kernels/reduce.h). Returns
/// false, and launches nothing, if rows are short, not contiguous, or not of f32, bf16 or f16.
bool arg_extreme_of_rows(bool is_max, const ConstView& x, int dim, const View& values, const View& indices);

}  // namespace bytetape::cuda
