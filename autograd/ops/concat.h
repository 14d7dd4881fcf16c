#pragma once
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Joins tensors along an existing dim; the other sizes, dtypes and devices must agree. ValueError where there are
/// none. Differentiable.
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// Joins tensors of one shape along a new dim. Differentiable.
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);

}  // namespace bytetape
