#pragma once
#include <cstdint>
#include <optional>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Selects slices of x along dim (torch.index_select). `index` is an i64 tensor of shape (m); indices may repeat.
/// The result has x's shape with size m in dim. Differentiable to any order. Gradients of repeated indices are summed
/// in the order of `index`, so they are deterministic.
/// Throws DTypeError if index is not i64.
/// Throws DeviceError if index and x are on different devices.
/// Throws ShapeError if index is not 1-D, or x is a scalar.
/// Throws ValueError if an index is not in [0, x.size(dim)).
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);

/// \name Slices by index
/// `index` is an i64 tensor of shape (m), and `src` has x's shape with size m in dim. Differentiable to any order, in x
/// and src.
/// Throws DTypeError if index is not i64, or src has another dtype than x.
/// Throws DeviceError if the tensors are on different devices.
/// Throws ShapeError if index is not 1-D, x is a scalar, or src has another shape.
/// Throws ValueError if an index is not in [0, x.size(dim)). An op in place then changes nothing.
/// The ops in place return x. They throw AutogradError or ValueError if x cannot be overwritten, as copy_().
/// @{

/// Returns a copy of x, to whose slice index[i] along dim slice i of src is added (torch.index_add). The summands of a
/// slice are added in a fixed order, so the bits are the same each time.
/// Throws DTypeError if x is bool.
Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
Tensor index_add_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
/// Returns a copy of x, whose slice index[i] along dim is slice i of src (torch.index_copy). If indices repeat, the
/// last one wins.
Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
Tensor index_copy_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
/// @}

/// The options of embedding() and nn::Embedding.
struct EmbeddingOptions {
  /// The row that gets no gradient, such as the one of a padding token; may be negative.
  std::optional<std::int64_t> padding_idx = {};
};
/// Looks up rows of weight (n, d) (torch.nn.functional.embedding). `index` is an i64 tensor of any shape (...). Returns
/// (..., d). Differentiable in weight, to any order. Gradients of repeated indices are summed in a fixed order.
/// Throws DTypeError if index is not i64.
/// Throws DeviceError if index and weight are on different devices.
/// Throws ShapeError if weight is not 2-D.
/// Throws ValueError if padding_idx is not in [-n, n), or an index is not in [0, n).
Tensor embedding(const Tensor& index, const Tensor& weight, EmbeddingOptions options = {});

/// Returns the one-hot encoding of x: i64 (..., num_classes), 1 at the class of each element and 0 elsewhere. x is i64.
/// Unlike in torch.nn.functional.one_hot, num_classes is required, because inferring it would copy values from the
/// device to the host. Not differentiable.
/// Throws DTypeError if x is not i64.
/// Throws ValueError if num_classes is not positive, or an element is not in [0, num_classes).
Tensor one_hot(const Tensor& x, std::int64_t num_classes);

}  // namespace bytetape
