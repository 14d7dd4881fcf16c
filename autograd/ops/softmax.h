#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// exp(x) / sum(exp(x)) along dim, of floating-point x. Shifted by the maximum, so it does not overflow. Differentiable
/// to any order.
/// Throws DTypeError if x is not floating-point.
/// Throws ShapeError if dim is out of range.
Tensor softmax(const Tensor& x, std::int64_t dim);
/// log(softmax(x, dim)), of floating-point x, accurate even if softmax rounds to 0. Differentiable to any order.
/// Errors are those of softmax().
Tensor log_softmax(const Tensor& x, std::int64_t dim);

}  // namespace bytetape
