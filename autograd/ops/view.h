#pragma once
#include <cstdint>
#include <limits>
#include <optional>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// In index(): a new dim of size 1. In a Slice: no bound.
inline constexpr struct NoneType {
  constexpr operator std::optional<std::int64_t>() const { return {}; }
} None;

/// The elements start, start + step, ... before stop of a dim, as start:stop:step in Python. Negative bounds count from
/// the end, and bounds beyond the dim are moved to it: Slice(1, None), Slice(-3), Slice(None, None, 2).
struct Slice {
  std::int64_t start, stop, step;
  Slice(std::optional<std::int64_t> start = {}, std::optional<std::int64_t> stop = {}, std::int64_t step = 1)
      : start(start.value_or(0)), stop(stop.value_or(std::numeric_limits<std::int64_t>::max())), step(step) {}
};

/// \name Views
/// Share the storage of x, without allocating. Differentiable. Dims may be negative.
/// Throws ShapeError if an argument does not fit x's shape.
/// @{

/// Returns the same elements in another shape. One size may be -1.
/// Throws ShapeError if x's strides do not allow a view. Use reshape() then.
Tensor view(const Tensor& x, const Shape& shape);
/// Returns view() if x's strides allow it, else a view of a row-major copy.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Joins dims start_dim to end_dim, inclusive, into one. Copies if the strides do not allow a view.
Tensor flatten(const Tensor& x, std::int64_t start_dim = 0, std::int64_t end_dim = -1);
/// Swaps two dims.
Tensor transpose(const Tensor& x, std::int64_t dim0, std::int64_t dim1);
/// Dim i of the result is dim dims[i] of x.
Tensor permute(const Tensor& x, const Dims& dims);
/// Returns `length` elements of `dim` from `start`, which may be negative.
Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length);
/// Returns one element of `dim`, and drops the dim. `index` may be negative.
Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index);
/// Returns a range of `dim`, with every step-th element.
/// Throws ValueError if the step is not positive.
Tensor slice(const Tensor& x, std::int64_t dim, const Slice& range);
/// Repeats dims of size 1, and new leading dims, without allocating. -1 keeps a size.
Tensor expand(const Tensor& x, const Shape& shape);
/// Drops dim if its size is 1.
Tensor squeeze(const Tensor& x, std::int64_t dim);
/// Drops every dim of size 1.
Tensor squeeze(const Tensor& x);
/// Adds a dim of size 1. It becomes dim `dim` of the result.
Tensor unsqueeze(const Tensor& x, std::int64_t dim);
/// @}

}  // namespace bytetape
