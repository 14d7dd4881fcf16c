#pragma once
#include "bytetape/autograd/operand.h"

namespace bytetape {

/// \name Comparisons
/// Elementwise, of two tensors with NumPy broadcasting, or of a tensor and a number: bool tensors. One dtype (bool only
/// for eq and ne), one device; a number takes the tensor's dtype, and is a DTypeError where that has no such value.
/// ValueError where both are numbers. Not differentiable.
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

/// condition ? a : b, all broadcast together. condition is bool; a and b have one dtype (DTypeError), which a number
/// takes. ValueError where both are numbers. Differentiable in a and b.
Tensor where(const Tensor& condition, const Operand& a, const Operand& b);

}  // namespace bytetape
