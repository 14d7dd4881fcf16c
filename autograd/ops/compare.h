#pragma once
#include "bytetape/autograd/operand.h"

namespace bytetape {

/// \name Comparisons
/// Elementwise, on two tensors with NumPy broadcasting, or on a tensor and a number. Returns a bool tensor. Not
/// differentiable.
/// Tensors must have one dtype, bool only for eq and ne, and one device. A number takes the tensor's dtype.
/// Throws DTypeError if dtypes differ, or if the dtype cannot represent the number.
/// Throws DeviceError if devices differ.
/// Throws ShapeError if the shapes do not broadcast.
/// Throws ValueError if both operands are numbers.
/// @{

Tensor eq(const Operand& a, const Operand& b);
Tensor ne(const Operand& a, const Operand& b);
Tensor lt(const Operand& a, const Operand& b);
Tensor le(const Operand& a, const Operand& b);
Tensor gt(const Operand& a, const Operand& b);
Tensor ge(const Operand& a, const Operand& b);

inline Tensor operator==(const Operand& a, const Operand& b) { return eq(a, b); }
inline Tensor operator!=(const Operand& a, const Operand& b) { return ne(a, b); }
inline Tensor operator<(const Operand& a, const Operand& b) { return lt(a, b); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return le(a, b); }
inline Tensor operator>(const Operand& a, const Operand& b) { return gt(a, b); }
inline Tensor operator>=(const Operand& a, const Operand& b) { return ge(a, b); }
/// @}

/// \name Logic
/// Elementwise on any dtype: 0 is false, and any other number is true, also NaN. Returns a bool tensor. Not
/// differentiable. Operands and errors are those of comparisons, and bool is allowed.
/// @{

Tensor logical_and(const Operand& a, const Operand& b);
Tensor logical_or(const Operand& a, const Operand& b);
Tensor logical_xor(const Operand& a, const Operand& b);
Tensor logical_not(const Tensor& x);

// For bool tensors. && and || are not overloaded, because they would always evaluate both operands.
// Throws DTypeError if a tensor is not bool.
Tensor operator&(const Tensor& a, const Tensor& b);
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator~(const Tensor& x);
/// @}

/// \name Classes of numbers
/// Elementwise, on any dtype. Returns a bool tensor. All integers are finite. Not differentiable.
/// @{

Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
/// Whether x is neither NaN nor infinite.
Tensor isfinite(const Tensor& x);
/// @}

/// \name Masked fill
/// x with `value` where mask is true. `mask` is bool and broadcasts to x's shape. `value` is a number or a 0-D tensor
/// of x's dtype. Differentiable in x and value. masked_fill_ writes into x and returns it, with the errors of other
/// in-place ops (autograd/ops/pointwise.h). Throws ShapeError, DTypeError or DeviceError if the arguments do not fit.
/// @{

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value);
Tensor masked_fill_(const Tensor& x, const Tensor& mask, const Operand& value);
/// @}

/// Returns condition ? a : b, elementwise, all broadcast together. Differentiable in a and b.
/// `condition` is bool. a and b have one dtype, which a number takes.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws ValueError if both a and b are numbers.
Tensor where(const Tensor& condition, const Operand& a, const Operand& b);

}  // namespace bytetape
