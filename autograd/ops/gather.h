#pragma once
#include "bytetape/autograd/operand.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Elements by index
/// `index` is an i64 tensor with as many dims as x, and selects a place along dim, which may be negative, for each of
/// its elements. In all other dims, an element of index belongs to the place in x with its own position, so index may
/// be smaller than x there. Differentiable to any order, in x and src.
/// Throws DTypeError if index is not i64, or src has another dtype than x.
/// Throws DeviceError if the tensors are on different devices.
/// Throws ShapeError if the tensors have different ranks, if index is larger than x in a dim other than `dim`, or if
/// index is larger than src in any dim.
/// Throws ValueError if an index is not in [0, x.size(dim)). An op in place then changes nothing.
/// @{

/// Returns y of index's shape (torch.gather). For dim 0 of a matrix: y[i][j] = x[index[i][j]][j].
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
/// Returns a copy of x in which src is written (torch.scatter). For dim 0 of a matrix: y[index[i][j]][j] = src[i][j].
/// `src` is a tensor or a number. If indices repeat, the last one along dim wins, on all devices and in the gradient.
/// Throws DTypeError if x's dtype cannot represent the number.
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Operand& src);
/// Writes scatter() into x. Returns x.
/// Throws AutogradError or ValueError if x cannot be overwritten, as copy_().
Tensor scatter_(const Tensor& x, std::int64_t dim, const Tensor& index, const Operand& src);
/// Returns a copy of x to which src is added (torch.scatter_add). For dim 0 of a matrix: y[index[i][j]][j] +=
/// src[i][j]. The summands of an element are added in a fixed order, so the bits are the same each time.
/// Throws DTypeError if x is bool.
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
/// Writes scatter_add() into x. Returns x.
/// Throws AutogradError or ValueError if x cannot be overwritten, as copy_().
Tensor scatter_add_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
/// @}

namespace detail {
/// Returns whether each element of index is the last along dim with its value. `size` is the bound of the values. A
/// scatter() keeps only the sources of these.
Tensor is_last(const Tensor& index, std::int64_t dim, std::int64_t size);
}  // namespace detail

}  // namespace bytetape
