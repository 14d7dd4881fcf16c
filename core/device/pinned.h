#pragma once
#include "bytetape/core/tensor.h"

/// \file
/// Tensors in memory of the host that is pinned: a GPU copies from it while the host goes on.
namespace bytetape {

/// An uninitialised tensor on the CPU, row-major, in memory that is pinned for `device`, and on the books of that
/// memory
/// ("pinned:cuda"); of a meta device, on Device::meta(). Throws DeviceError where there is no such memory, ShapeError
/// on negative sizes, OutOfMemory.
Tensor empty_pinned(const Shape& shape, DType dtype, Device device, memory::Role role = memory::Role::temporary);

/// A copy of x, row-major, in memory that is pinned for `device`, outside the graph; x itself where it lies there
/// already (torch.Tensor.pin_memory). A copy from it to the device does not keep the host waiting; whoever writes to it
/// by an op or through data() waits then. Throws DeviceError unless x is on the CPU, and where there is no such memory.
Tensor pin_memory(const Tensor& x, Device device = Device::cuda());

/// Whether x lies in pinned memory (torch.Tensor.is_pinned).
inline bool is_pinned(const Tensor& x) { return x.storage().pinned() != nullptr; }

}  // namespace bytetape
