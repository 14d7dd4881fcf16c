#pragma once
#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Zeroes each element with probability p and scales the rest by 1 / (1 - p); x itself where !training or p is 0.
/// Keeps no mask: backward draws the same bits again. Throws ValueError unless 0 <= p <= 1. Differentiable twice and
/// more.
Tensor dropout(const Tensor& x, double p, bool training = true, Generator& generator = default_generator());

}  // namespace bytetape
