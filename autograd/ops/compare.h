#pragma once
#include "bytetape/autograd/operand.h"

namespace bytetape {

/// \name Comparisons
/// Elementwise, on two tensors with NumPy broadcasting, or on a tensor and a number. Returns a bool tensor. Not
/// differentiable.
/// Tensors must have one dtype, bool only for eq and ne, and one device. A number takes the tensor's dtype.
/// Throws DTypeError if dtypes differ, or if the dtype cannot represent the number.
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

/// Returns condition ? a : b, elementwise, all broadcast together. Differentiable in a and b.
/// `condition` is bool. a and b have one dtype, which a number takes.
/// Throws DTypeError if the dtypes do not fit.
/// Throws ValueError if both a and b are numbers.
Tensor where(const Tensor& condition, const Operand& a, const Operand& b);

}  // namespace bytetape
