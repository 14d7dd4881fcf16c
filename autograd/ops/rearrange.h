#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Rearranging
/// Return a copy of x's elements in another order. Dims may be negative. Differentiable to any order.
/// @{

/// Reverses the order of the elements along the given dims (torch.flip).
/// Throws ShapeError if a dim is out of range or repeated.
Tensor flip(const Tensor& x, const Dims& dims);
/// Moves the elements by shifts[i] places along dims[i] (torch.roll). What leaves the end comes in at the start.
/// Without dims, shifts the flattened tensor. Shifts of a repeated dim add up.
/// Throws ShapeError if a dim is out of range, or there are not as many shifts as dims.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});
/// Repeats x repeats[i] times along dim i of the result, which is row-major (torch.Tensor.repeat). There may be more
/// repeats than dims. The first ones are then for new dims in front.
/// Throws ShapeError if a number is negative, or there are fewer repeats than dims.
Tensor repeat(const Tensor& x, const Dims& repeats);
/// @}

}  // namespace bytetape
