#pragma once
#include <concepts>
#include <cstdint>

#include "bytetape/autograd/ops/values_and_indices.h"

namespace bytetape {

/// \name Reductions
/// Functions that reduce x over `dims`. Dims may be negative, and an empty list means all dims. keepdim keeps the
/// reduced dims with size 1.
/// Throws ShapeError if a dim is out of range or repeated.
/// Throws DTypeError if x has a dtype that the op does not support.
/// @{

/// The sum. Integers and bool are summed in i64.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The product. Integers and bool are multiplied in i64, and wrap around on overflow. Computes in f32 under Autocast.
/// The gradient is exact also if x has zeros. Differentiable to any order.
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The mean, of floating-point tensors.
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The variance, sum((x - mean)^2) / (n - correction), of floating-point tensors. Correction 1 is the unbiased
/// estimate.
Tensor var(const Tensor& x, const Dims& dims = {}, bool keepdim = false, double correction = 1);
template <class NoBool>
requires(!std::same_as<NoBool, bool>) Tensor
    var(const Tensor& x, const Dims& dims, NoBool keepdim, double correction = 1)
= delete;
/// The square root of var(). The gradient is 0 if all elements are equal, as in PyTorch.
Tensor std(const Tensor& x, const Dims& dims = {}, bool keepdim = false, double correction = 1);
template <class NoBool>
requires(!std::same_as<NoBool, bool>) Tensor
    std(const Tensor& x, const Dims& dims, NoBool keepdim, double correction = 1)
= delete;
/// std() under another name. After `using namespace bytetape;` a plain `std(x)` is ambiguous with the namespace std.
inline Tensor stddev(const Tensor& x, const Dims& dims = {}, bool keepdim = false, double correction = 1) {
  return bytetape::std(x, dims, keepdim, correction);
}
template <class NoBool>
requires(!std::same_as<NoBool, bool>) Tensor
    stddev(const Tensor& x, const Dims& dims, NoBool keepdim, double correction = 1)
= delete;
/// The 2-norm, sqrt(sum(x^2)), of floating-point tensors (torch.linalg.vector_norm). The gradient is 0 at norm 0.
Tensor norm(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// log(sum(exp(x))), of floating-point tensors. x is shifted by its maximum, so exp does not overflow. Computes in f32
/// under Autocast. If all elements are -inf, or a slice is empty, the result is -inf with gradient 0. The gradient of
/// an element that is inf is NaN, as in PyTorch.
Tensor logsumexp(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Whether any element is true. Numbers other than 0 are true, and so is NaN. The result is a bool tensor, false if
/// there are no elements. Not differentiable.
Tensor any(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Whether all elements are true, in the sense of any(). The result is a bool tensor, true if there are no elements.
/// Not differentiable.
Tensor all(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The largest element (torch.amax). Equal elements share the gradient evenly. NaN is propagated.
/// Throws ShapeError if there are no elements to reduce.
Tensor max(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The smallest element (torch.amin). Equal elements share the gradient evenly. NaN is propagated.
/// Throws ShapeError if there are no elements to reduce.
Tensor min(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The i64 index of the first largest element of the flattened tensor. NaN counts as largest. Not differentiable.
/// Throws ShapeError if there are no elements to reduce.
Tensor argmax(const Tensor& x);
/// The i64 index of the first largest element along dim. NaN counts as largest. Not differentiable.
/// Throws ShapeError if there are no elements to reduce.
Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// The i64 index of the first smallest element of the flattened tensor. NaN counts as smallest. Not differentiable.
/// Throws ShapeError if there are no elements to reduce.
Tensor argmin(const Tensor& x);
/// The i64 index of the first smallest element along dim. NaN counts as smallest. Not differentiable.
/// Throws ShapeError if there are no elements to reduce.
Tensor argmin(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// The largest elements along dim and their indices (torch.max with a dim). The first of equal elements is chosen, and
/// gets the whole gradient. (In max(), equal elements share the gradient.) NaN counts as largest.
/// Throws ShapeError if there are no elements to reduce.
ValuesAndIndices max_with_indices(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// The smallest elements along dim and their indices (torch.min with a dim). NaN counts as smallest. Otherwise like
/// max_with_indices().
ValuesAndIndices min_with_indices(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// Sums x over the dims that broadcasting adds to or repeats in a tensor of shape `shape`. The result has this shape.
/// sum_to() is the gradient of expand().
/// Throws ShapeError if `shape` does not broadcast to x's shape.
Tensor sum_to(const Tensor& x, const Shape& shape);
/// @}

}  // namespace bytetape
