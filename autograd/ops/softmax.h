#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// exp(x) / sum(exp(x)) along dim; shifted by the maximum, so that nothing overflows. Floating. Differentiable twice
/// and more.
Tensor softmax(const Tensor& x, std::int64_t dim);
/// The logarithm of softmax(x, dim), also where that rounds to 0. Floating. Differentiable twice and more.
Tensor log_softmax(const Tensor& x, std::int64_t dim);

}  // namespace bytetape
