#pragma once
#include <cstdint>
#include <vector>

#include "bytetape/core/scalar.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// What pad() puts around a tensor: a constant; what a mirror at the outermost element shows; the outermost element.
enum class PadMode : std::uint8_t { constant, reflect, replicate };

/// Pads x in its last dims: two numbers each, how many elements more at its begin and end, the last dim's first
/// (torch.nn.functional.pad). A negative number cuts off as many; where nothing is added, the result is a view of x.
/// `value` is for PadMode::constant alone. Throws ShapeError where there are not two numbers for up to x.rank() dims,
/// more would be cut off than there is, reflect should add as many as a dim has or more, or replicate has none to
/// repeat; DTypeError where x's dtype has no such value. Differentiable twice and more.
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, PadMode mode = PadMode::constant,
           Scalar value = 0);

namespace detail {
/// x within a tensor of `shape`, from `start` on, and `value` around it: what narrow takes out again.
Tensor place(const Tensor& x, const Shape& shape, const Dims& start, Scalar value = 0);
}  // namespace detail

}  // namespace bytetape
