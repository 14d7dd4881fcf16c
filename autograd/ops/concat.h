#pragma once
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Joins tensors along an existing dim. The other sizes, dtypes and devices must agree. Differentiable.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws ValueError if `tensors` is empty.
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// Joins tensors of one shape along a new dim. Differentiable. Errors are those of cat().
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);

/// Splits x into views of `split_size` along dim. The last may be smaller. They share x's storage. Differentiable.
/// Throws ValueError if split_size is not positive.
std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, std::int64_t dim = 0);
/// Splits x into views of the given sizes along dim.
/// Throws ShapeError if the sizes do not add up to the dim's size.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes, std::int64_t dim = 0);
/// Splits x into at most `chunks` views of equal size along dim. The last may be smaller (torch.chunk). Differentiable.
/// Throws ValueError if `chunks` is not positive.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim = 0);

}  // namespace bytetape
