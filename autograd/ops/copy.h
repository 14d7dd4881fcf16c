#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// A copy with its own storage and x's (dense) strides. Differentiable.
Tensor clone(const Tensor& x);
/// x itself where it is row-major already, else a row-major copy. Differentiable.
Tensor contiguous(const Tensor& x);
/// x (n, c, h, w) stored channels-last: itself where it is already, else a copy. Differentiable.
Tensor channels_last(const Tensor& x);
/// x with another dtype, converted as C++ does it; x itself where it has it. What was made as input stays input on the
/// ledger. Differentiable between floating dtypes.
Tensor to(const Tensor& x, DType dtype);
/// x on another device; x itself where it is there. To a meta device: shape and bytes, no data. What was made as input
/// stays input on the ledger. Differentiable.
Tensor to(const Tensor& x, Device device);
/// Both in one copy.
Tensor to(const Tensor& x, Device device, DType dtype);

/// \name Overwriting
/// What is overwritten gets no gradient. AutogradError on a leaf that requires grad, or a view on the tape; ValueError
/// where elements share memory (check_in_place).
/// @{

/// Writes b (broadcast, converted, from any device) into a. ShapeError where it does not fit, DeviceError
/// where b holds no data and a should. Differentiable in b.
Tensor copy_(const Tensor& a, const Tensor& b);
/// Writes `value` everywhere. DTypeError where the dtype has it not (1.5 for integers).
Tensor fill_(const Tensor& x, Scalar value);
Tensor zero_(const Tensor& x);
/// @}

}  // namespace bytetape
