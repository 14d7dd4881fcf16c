#pragma once
#include <concepts>
#include <cstdint>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Reductions
/// Reduce over `dims`, which may be negative; an empty list means all. keepdim keeps the reduced dims with size 1.
/// Throws ShapeError if a dim is out of range or repeated.
/// @{

/// The sum. Integers and bool are summed in i64.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
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
/// Sums x to `shape`, over the dims that broadcasting would repeat: the gradient of expand.
/// Throws ShapeError if `shape` does not broadcast to x's shape.
Tensor sum_to(const Tensor& x, const Shape& shape);
/// @}

}  // namespace bytetape
