#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The slices of x along dim that index, i64 (m), counts, in its order; one may come several times
/// (torch.index_select). Result: x's shape with m in the place of dim. Throws DTypeError on another index, ShapeError
/// on one of another rank and on a scalar x, ValueError where an element is not in [0, x.size(dim)). Differentiable
/// twice and more: what a slice came for several times is added up in the index's order, so gradients repeat bit for
/// bit.
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);

/// 1 in the place that each element of x, i64, counts, else 0: i64 (..., num_classes)
/// (torch.nn.functional.one_hot, whose num_classes may be left out: it would have to be read off a device). Throws
/// DTypeError on another x, ValueError where num_classes is not positive or an element is not in [0, num_classes). Not
/// differentiable.
Tensor one_hot(const Tensor& x, std::int64_t num_classes);

}  // namespace bytetape
