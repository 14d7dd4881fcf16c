#pragma once
#include "bytetape/core/tensor.h"

/// \file
/// Tensors in pinned host memory. A GPU copies from it while the host continues.
namespace bytetape {

/// Returns an uninitialised row-major CPU tensor in memory that is pinned for `device`. The ledger counts it under that
/// memory ("pinned:cuda"). For a meta device the tensor is on Device::meta().
/// Throws DeviceError if there is no such memory.
/// Throws ShapeError if a size is negative.
/// Throws OutOfMemory.
Tensor empty_pinned(const Shape& shape, DType dtype, Device device, memory::Role role = memory::Role::temporary);

/// Returns a row-major copy of x in memory that is pinned for `device`, or x itself if it is there
/// (torch.Tensor.pin_memory).
/// The copy is outside the graph. Copies from it to the device do not make the host wait. A write by an op or through
/// data() waits for them.
/// Throws DeviceError if x is not on the CPU, or if there is no such memory.
Tensor pin_memory(const Tensor& x, Device device = Device::cuda());

/// Whether x lies in pinned memory (torch.Tensor.is_pinned).
inline bool is_pinned(const Tensor& x) { return x.storage().pinned() != nullptr; }

}  // namespace bytetape
