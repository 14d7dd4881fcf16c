#pragma once
#include <cstdint>

#include "bytetape/core/tensor.h"

namespace bytetape {

// Reductions over `dims` (may count from the end; none means all). keepdim leaves the reduced dims at size 1.
// ShapeError on a dim that is out of range or named twice.

/// Integers and bool sum to i64.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Floating tensors only.
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// sum((x - mean)^2) / (n - correction); correction 1 is the unbiased estimate. Floating tensors only.
Tensor var(const Tensor& x, const Dims& dims = {}, double correction = 1, bool keepdim = false);
/// Equal largest elements share the gradient evenly (torch.amax). ShapeError where nothing is left to choose from.
Tensor max(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor min(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Index (i64) of the first largest element along dim; without a dim, in the flattened tensor. Not differentiable.
Tensor argmax(const Tensor& x);
Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// Sums x over the dims that broadcasting `shape` to x's shape would repeat: the inverse of expand.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace bytetape
