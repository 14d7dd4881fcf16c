#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Arithmetic
/// Elementwise, with NumPy broadcasting. Both tensors need one dtype (not bool) and one device: DTypeError,
/// DeviceError; ShapeError where the shapes do not broadcast. A number takes the tensor's dtype: DTypeError where it is
/// none of its values (1.5 for integers). Differentiable twice and more.
/// @{

Tensor add(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, Scalar b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, Scalar b);
Tensor sub(Scalar a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, Scalar b);
/// Integers truncate towards zero, and give 0 for a division by zero.
Tensor div(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, Scalar b);
Tensor div(Scalar a, const Tensor& b);
Tensor pow(const Tensor& a, const Tensor& exponent);
Tensor pow(const Tensor& a, Scalar exponent);
Tensor neg(const Tensor& x);
/// @}

/// \name Arithmetic in place
/// The same into the first tensor, whose shape must be the broadcast one: ShapeError. AutogradError on a leaf that
/// requires grad, or a view on the tape; ValueError where memory overlaps (check_in_place).
/// @{

Tensor& add_(Tensor& a, const Tensor& b);
Tensor& add_(Tensor& a, Scalar b);
Tensor& sub_(Tensor& a, const Tensor& b);
Tensor& sub_(Tensor& a, Scalar b);
Tensor& mul_(Tensor& a, const Tensor& b);
Tensor& mul_(Tensor& a, Scalar b);
Tensor& div_(Tensor& a, const Tensor& b);
Tensor& div_(Tensor& a, Scalar b);
Tensor& pow_(Tensor& a, Scalar exponent);
Tensor& neg_(Tensor& x);
/// @}

/// \name Operators
/// Signs for add, sub, mul, div and neg, and for their forms in place.
/// @{

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
inline Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor operator-(Scalar a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor operator/(Scalar a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor& operator+=(Tensor& a, const Tensor& b) { return add_(a, b); }
inline Tensor& operator+=(Tensor& a, Scalar b) { return add_(a, b); }
inline Tensor& operator-=(Tensor& a, const Tensor& b) { return sub_(a, b); }
inline Tensor& operator-=(Tensor& a, Scalar b) { return sub_(a, b); }
inline Tensor& operator*=(Tensor& a, const Tensor& b) { return mul_(a, b); }
inline Tensor& operator*=(Tensor& a, Scalar b) { return mul_(a, b); }
inline Tensor& operator/=(Tensor& a, const Tensor& b) { return div_(a, b); }
inline Tensor& operator/=(Tensor& a, Scalar b) { return div_(a, b); }
/// @}

}  // namespace bytetape
