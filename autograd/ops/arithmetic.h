#pragma once
#include "bytetape/autograd/operand.h"

namespace bytetape {

/// \name Arithmetic
/// Elementwise, of two tensors with NumPy broadcasting, or of a tensor and a number. Tensors need one dtype (not bool)
/// and one device: DTypeError, DeviceError; ShapeError where the shapes do not broadcast. A number takes the tensor's
/// dtype: DTypeError where it is none of its values (1.5 for integers); ValueError where both are numbers.
/// Differentiable twice and more.
/// @{

Tensor add(const Operand& a, const Operand& b);
Tensor sub(const Operand& a, const Operand& b);
Tensor mul(const Operand& a, const Operand& b);
/// Integers truncate towards zero, and give 0 for a division by zero.
Tensor div(const Operand& a, const Operand& b);
Tensor pow(const Operand& a, const Operand& exponent);
/// The larger of two elements. Equal ones share the gradient evenly; NaN wins.
Tensor maximum(const Operand& a, const Operand& b);
/// The smaller of two elements; otherwise as maximum.
Tensor minimum(const Operand& a, const Operand& b);
Tensor neg(const Tensor& x);
/// @}

/// \name Arithmetic in place
/// The same into the first tensor, which is returned and whose shape must be the broadcast one: ShapeError.
/// AutogradError on a leaf that requires grad, or a view on the tape; ValueError where memory overlaps
/// (check_in_place).
/// @{

Tensor add_(const Tensor& a, const Operand& b);
Tensor sub_(const Tensor& a, const Operand& b);
Tensor mul_(const Tensor& a, const Operand& b);
Tensor div_(const Tensor& a, const Operand& b);
Tensor pow_(const Tensor& a, const Operand& exponent);
Tensor neg_(const Tensor& x);
/// @}

/// \name Operators
/// Signs for add, sub, mul, div and neg, and for their forms in place.
/// @{

inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+=(const Tensor& a, const Operand& b) { return add_(a, b); }
inline Tensor operator-=(const Tensor& a, const Operand& b) { return sub_(a, b); }
inline Tensor operator*=(const Tensor& a, const Operand& b) { return mul_(a, b); }
inline Tensor operator/=(const Tensor& a, const Operand& b) { return div_(a, b); }
/// @}

}  // namespace bytetape
