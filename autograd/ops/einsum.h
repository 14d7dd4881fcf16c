#pragma once
#include <string_view>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Sums products of one or two tensors over named dims (torch.einsum):
///
///     const Tensor scores = einsum("bhqd,bhkd->bhqk", queries, keys);
///
/// The equation has a letter for each dim of each tensor, and those of the result. Dims with one letter belong
/// together: sizes are equal, or 1, which is broadcast. Letters that the result lacks are summed over. "..." stands for
/// any number of dims, counted from the last one. Without "->" the result has those of "...", then the letters that
/// occur once, in alphabetical order. Spaces are ignored.
///
/// The result is permute, sum and mul of the inputs, or one batched matmul if a letter of both is summed over, with the
/// dtypes and gradients of these ops. It may be a view. Under Autocast all of them compute in the low dtype; in PyTorch
/// that holds for products with a sum.
///
/// Throws ValueError if the equation is invalid, or repeats a letter in one tensor.
/// Throws ShapeError if the tensors do not fit.
/// Throws DTypeError or DeviceError if the tensors differ.
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b = {});

}  // namespace bytetape
