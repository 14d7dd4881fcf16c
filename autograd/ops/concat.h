#pragma once
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Joins tensors along an existing dim; the other sizes, dtypes and devices must agree. ValueError where there are
/// none. Differentiable.
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// Joins tensors of one shape along a new dim. Differentiable.
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);

/// Views of x along dim, of so many slices each; what is left over makes a last one that is smaller. They share x's
/// storage. ValueError where split_size is not positive. Differentiable.
std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, std::int64_t dim = 0);
/// The same of sizes that add up to dim's (ShapeError).
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes, std::int64_t dim = 0);
/// Views of x along dim, up to so many, of equal sizes but for the last (torch.chunk: there may be fewer). ValueError
/// where `chunks` is not positive. Differentiable.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim = 0);

}  // namespace bytetape
