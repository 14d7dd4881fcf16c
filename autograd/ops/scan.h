#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The cumulative sum along dim, which may be negative (torch.cumsum): y[i] is the sum of x[0] to x[i]. Has x's shape.
/// Integers and bool are summed in i64, which wraps around. Computes in f32 under Autocast.
/// Differentiable to any order.
/// Throws ShapeError if dim is out of range.
Tensor cumsum(const Tensor& x, std::int64_t dim);

}  // namespace bytetape
