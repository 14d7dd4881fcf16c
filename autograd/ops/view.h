#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Views
/// They share the storage of x and cost no memory. Differentiable. Dims may count from the end. ShapeError on a misfit.
/// @{

/// The same elements in another shape; one size may be -1. Throws where x's strides do not allow it: use reshape.
Tensor view(const Tensor& x, const Shape& shape);
/// view where x's strides allow it, else a view of a row-major copy.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Joins dims start_dim .. end_dim into one (a copy where the strides do not allow a view).
Tensor flatten(const Tensor& x, std::int64_t start_dim = 0, std::int64_t end_dim = -1);
/// Swaps two dims.
Tensor transpose(const Tensor& x, std::int64_t dim0, std::int64_t dim1);
/// Dim i of the result is dim dims[i] of x.
Tensor permute(const Tensor& x, const Dims& dims);
/// `length` elements of `dim` from `start`, which may count from the end.
Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length);
/// One element of `dim`, which is dropped. `index` may count from the end.
Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index);
/// Repeats dims of size 1 (and new leading ones) without memory; -1 keeps a size.
Tensor expand(const Tensor& x, const Shape& shape);
/// Drops one dim of size 1; nothing happens where its size is another.
Tensor squeeze(const Tensor& x, std::int64_t dim);
/// Drops every dim of size 1.
Tensor squeeze(const Tensor& x);
/// Adds a dim of size 1, which is dim `dim` of the result.
Tensor unsqueeze(const Tensor& x, std::int64_t dim);
/// @}

}  // namespace bytetape
