#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Computes exp(x) / sum(exp(x)) along dim. x is floating-point, and is shifted by its maximum, so exp does not
/// overflow. Differentiable to any order.
/// Throws DTypeError if x is not floating-point.
/// Throws ShapeError if dim is out of range.
Tensor softmax(const Tensor& x, std::int64_t dim);
/// Computes log(softmax(x, dim)), accurate even if softmax rounds to 0. x is floating-point. Differentiable to any
/// order.
/// Throws the same errors as softmax().
Tensor log_softmax(const Tensor& x, std::int64_t dim);

}  // namespace bytetape
