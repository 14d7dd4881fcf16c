#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// exp(x) / sum(exp(x)) along dim, and its logarithm; shifted by the maximum, so that nothing overflows. Floating.
/// Differentiable twice and more.
Tensor softmax(const Tensor& x, std::int64_t dim);
Tensor log_softmax(const Tensor& x, std::int64_t dim);

}  // namespace bytetape
