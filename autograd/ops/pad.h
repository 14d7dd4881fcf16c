#pragma once
#include <cstdint>
#include <vector>

#include "bytetape/core/scalar.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The values of padding: a constant, the mirror image at the outermost element, or the outermost element.
enum class PadMode : std::uint8_t { constant, reflect, replicate };
constexpr const char* name_of(PadMode m) {
  return m == PadMode::constant ? "constant" : m == PadMode::reflect ? "reflect" : "replicate";
}

/// Pads the last dims of x (torch.nn.functional.pad). Differentiable to any order.
/// `padding` has two numbers per dim: how many elements to add at its start and at its end. The first pair is for the
/// last dim. Negative numbers crop. If nothing is added, the result is a view of x. `value` is for PadMode::constant
/// only.
/// Throws ShapeError if padding does not have two numbers for each of at most x.rank() dims, crops more elements than a
/// dim has, reflects as many elements as the dim has or more, or replicates an empty dim.
/// Throws DTypeError if x's dtype cannot represent `value`.
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, PadMode mode = PadMode::constant,
           Scalar value = 0);

/// Returns the lower triangle of the matrices of x (..., m, n), with 0 elsewhere (torch.tril): the elements of row i up
/// to column i + diagonal. Differentiable to any order.
/// Throws ShapeError if x has fewer than two dims.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
/// Returns the upper triangle of the matrices of x (..., m, n), with 0 elsewhere (torch.triu): the elements of row i
/// from column i + diagonal on. Differentiable to any order.
/// Throws ShapeError if x has fewer than two dims.
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

namespace detail {
/// Returns a tensor of `shape` that holds x from `start` on, and `value` elsewhere. The inverse of narrow.
Tensor place(const Tensor& x, const Shape& shape, const Dims& start, Scalar value = 0);
}  // namespace detail

}  // namespace bytetape
