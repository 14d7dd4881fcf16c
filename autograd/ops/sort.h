#pragma once
#include "bytetape/autograd/ops/values_and_indices.h"

namespace bytetape {

/// \name Sorting
/// Sort x along dim, which may be negative. Equal elements stay in order. NaN counts as largest, and -0 equals 0. The
/// gradient of each value goes to the element that it came from. Differentiable to any order.
/// Throws ShapeError if dim is out of range.
/// @{

/// Returns the sorted values, and their indices in x (torch.sort, always stable).
ValuesAndIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
/// Returns the indices of sort() alone (torch.argsort). Not differentiable.
Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
/// Returns the k largest or smallest elements in order, and their indices (torch.topk): the first k of sort(). Of equal
/// elements, those with the lowest indices are chosen.
/// Throws ValueError unless 0 <= k <= the size of dim; a scalar has size 1, and k must be 1.
ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);
/// @}

}  // namespace bytetape
