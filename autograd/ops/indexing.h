#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Selects slices of x along dim (torch.index_select). `index` is an i64 tensor of shape (m); indices may repeat.
/// The result has x's shape with size m in dim. Differentiable to any order. Gradients of repeated indices are summed
/// in the order of `index`, so they are deterministic.
/// Throws DTypeError if index is not i64.
/// Throws ShapeError if index is not 1-D, or x is a scalar.
/// Throws ValueError if an index is not in [0, x.size(dim)).
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);

/// Returns the one-hot encoding of x: i64 (..., num_classes), 1 at the class of each element and 0 elsewhere. x is i64.
/// As torch.nn.functional.one_hot, but num_classes is required, because inferring it would copy values from the device
/// to the host. Not differentiable. Throws DTypeError if x is not i64. Throws ValueError if num_classes is not
/// positive, or an element is not in [0, num_classes).
Tensor one_hot(const Tensor& x, std::int64_t num_classes);

}  // namespace bytetape
