#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Returns a copy with its own storage, and with x's strides if they are dense. Differentiable.
Tensor clone(const Tensor& x);
/// Returns x if it is row-major, else a row-major copy. Differentiable.
Tensor contiguous(const Tensor& x);
/// Returns x (n, c, h, w) if it is channels-last, else a channels-last copy. Differentiable.
Tensor channels_last(const Tensor& x);
/// Returns x converted to another dtype as C++ converts, or x itself if it has the dtype.
/// A copy of an input stays an input on the ledger. Differentiable between floating dtypes.
Tensor to(const Tensor& x, DType dtype);
/// Returns x on another device, or x itself if it is there. A copy to a meta device has shape and bytes, but no data.
/// A copy of an input stays an input on the ledger. Differentiable.
Tensor to(const Tensor& x, Device device);
/// Returns x on another device and in another dtype, in one copy.
Tensor to(const Tensor& x, Device device, DType dtype);

/// \name Overwriting
/// The overwritten values get no gradient.
/// Throws AutogradError if the tensor is a leaf that requires grad, or a view on the tape that check_in_place()
/// rejects.
/// Throws ValueError if elements share memory (check_in_place()).
/// @{

/// Copies b into a, broadcast and converted to a's dtype. b may be on any device. Differentiable in b.
/// Throws ShapeError if b does not broadcast to a's shape.
/// Throws DeviceError if b is on a meta device and a is not.
Tensor copy_(const Tensor& a, const Tensor& b);
/// Sets all elements to `value`.
/// Throws DTypeError if the dtype cannot represent it (1.5 for integers).
Tensor fill_(const Tensor& x, Scalar value);
Tensor zero_(const Tensor& x);
/// @}

}  // namespace bytetape
