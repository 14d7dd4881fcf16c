#pragma once
#include <concepts>
#include <cstdint>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Reductions
/// Over `dims` (may count from the end; none means all). keepdim leaves the reduced dims at size 1. ShapeError on a dim
/// that is out of range or named twice.
/// @{

/// The sum; of integers and bool in i64.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The mean. Floating tensors only.
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The variance, sum((x - mean)^2) / (n - correction); correction 1 is the unbiased estimate. Floating tensors only.
Tensor var(const Tensor& x, const Dims& dims = {}, bool keepdim = false, double correction = 1);
template <class NoBool>
requires(!std::same_as<NoBool, bool>) Tensor
    var(const Tensor& x, const Dims& dims, NoBool keepdim, double correction = 1)
= delete;
/// The square root of var(), in the same arguments; its gradient is 0 where all elements are equal, as in PyTorch.
Tensor std(const Tensor& x, const Dims& dims = {}, bool keepdim = false, double correction = 1);
template <class NoBool>
requires(!std::same_as<NoBool, bool>) Tensor
    std(const Tensor& x, const Dims& dims, NoBool keepdim, double correction = 1)
= delete;
/// std() under a name that `using namespace bytetape;` leaves free, where a plain `std(x)` is ambiguous with the
/// namespace std.
inline Tensor stddev(const Tensor& x, const Dims& dims = {}, bool keepdim = false, double correction = 1) {
  return bytetape::std(x, dims, keepdim, correction);
}
template <class NoBool>
requires(!std::same_as<NoBool, bool>) Tensor
    stddev(const Tensor& x, const Dims& dims, NoBool keepdim, double correction = 1)
= delete;
/// The 2-norm, sqrt(sum(x^2)) (torch.linalg.vector_norm); its gradient is 0 where it is 0. Floating tensors only.
Tensor norm(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The largest element (torch.amax); equal ones share the gradient evenly. NaN wins. ShapeError where there is nothing
/// to choose from.
Tensor max(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The smallest element (torch.amin); otherwise as max.
Tensor min(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Index (i64) of the first largest element of the flattened tensor. NaN wins. ShapeError where there is nothing to
/// choose from. Not differentiable.
Tensor argmax(const Tensor& x);
/// The same along dim.
Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// Sums x over the dims that broadcasting `shape` to x's shape would repeat: the gradient of expand. ShapeError where
/// that is impossible.
Tensor sum_to(const Tensor& x, const Shape& shape);
/// @}

}  // namespace bytetape
