#pragma once
#include "bytetape/autograd/operand.h"

namespace bytetape {

/// \name Arithmetic
/// Elementwise, on two tensors with NumPy broadcasting, or on a tensor and a number. Differentiable to any order.
/// Tensors must have one dtype, not bool, and one device. A number takes the tensor's dtype.
/// Throws DTypeError if dtypes differ, are bool, or cannot represent the number (1.5 for integers).
/// Throws DeviceError if devices differ.
/// Throws ShapeError if the shapes do not broadcast.
/// Throws ValueError if both operands are numbers.
/// @{

Tensor add(const Operand& a, const Operand& b);
Tensor sub(const Operand& a, const Operand& b);
Tensor mul(const Operand& a, const Operand& b);
/// Divides a by b. Integers truncate towards zero; division by zero gives 0.
Tensor div(const Operand& a, const Operand& b);
Tensor pow(const Operand& a, const Operand& exponent);
/// The larger of two elements. Equal elements share the gradient evenly. NaN is propagated.
Tensor maximum(const Operand& a, const Operand& b);
/// The smaller of two elements. Equal elements share the gradient evenly. NaN is propagated.
Tensor minimum(const Operand& a, const Operand& b);
Tensor neg(const Tensor& x);
/// @}

/// \name Arithmetic in place
/// Writes the result into the first tensor, and returns it. Errors are those of the arithmetic ops, and:
/// Throws ShapeError if the first tensor does not have the broadcast shape.
/// Throws AutogradError if it is a leaf that requires grad, or a view on the tape that check_in_place() rejects.
/// Throws ValueError if elements share memory (check_in_place()).
/// @{

Tensor add_(const Tensor& a, const Operand& b);
Tensor sub_(const Tensor& a, const Operand& b);
Tensor mul_(const Tensor& a, const Operand& b);
Tensor div_(const Tensor& a, const Operand& b);
Tensor pow_(const Tensor& a, const Operand& exponent);
Tensor neg_(const Tensor& x);
/// @}

/// \name Operators
/// Operators for add, sub, mul, div and neg, and for their in-place forms.
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
