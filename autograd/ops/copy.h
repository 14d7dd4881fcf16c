#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Returns a copy with its own storage, and with x's strides if they are dense. Differentiable.
Tensor clone(const Tensor& x);
/// Returns x if it is row-major, else a row-major copy. Differentiable.
Tensor contiguous(const Tensor& x);
/// Returns x (n, c, h, w) if it is channels-last, else a channels-last copy. Differentiable.
/// Throws ShapeError if x is not 4-D.
Tensor channels_last(const Tensor& x);
/// Returns x converted to another dtype as C++ converts, or x itself if it has the dtype. A copy of an input keeps the
/// role `input` in memory reports. Differentiable between floating dtypes.
Tensor to(const Tensor& x, DType dtype);
/// Returns x on another device, or x itself if it is there. A copy to a meta device has shape and bytes, but no data. A
/// copy of an input keeps the role `input` in memory reports. Differentiable.
/// Throws DeviceError if x is on a meta device and `device` is not.
Tensor to(const Tensor& x, Device device);
/// Returns x on another device and in another dtype, in one copy.
Tensor to(const Tensor& x, Device device, DType dtype);

/// \name Overwriting
/// The overwritten values get no gradient.
/// Throws AutogradError if the tensor is a leaf that requires grad, or a view on the tape whose base is still in use.
/// Throws ValueError if elements of the tensor share memory.
/// @{

/// Copies b into a, broadcast and converted to a's dtype. b may be on any device. Differentiable in b.
/// Throws ShapeError if b does not broadcast to a's shape.
/// Throws DeviceError if b is on a meta device and a is not.
Tensor copy_(const Tensor& a, const Tensor& b);
/// Sets all elements to `value`.
/// Throws DTypeError if the dtype cannot represent `value` (1.5 for integers).
Tensor fill_(const Tensor& x, Scalar value);
Tensor zero_(const Tensor& x);
/// @}

namespace detail {
/// Returns clone(x) outside the tape, for ops that overwrite parts of it.
Tensor copy_of(const Tensor& x);
/// Returns an input of an op that writes into x: a clone if the two share a storage, because elements could be
/// overwritten before they are read. Returns the input itself if the op is not in place.
Tensor apart_from(const Tensor& x, const Tensor& input, bool in_place = true);
}  // namespace detail

}  // namespace bytetape
