#pragma once
#include <cstdint>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// The memory format of an image (n, c, h, w) (torch.memory_format).
enum class MemoryFormat : std::uint8_t { contiguous, channels_last };

/// The format of images that convolutions and loaders make. The libraries' kernels are fastest with it.
inline constexpr MemoryFormat image_format = MemoryFormat::channels_last;
/// Returns the format for an op's result from x: channels-last if x is an image whose channels are innermost, dense or
/// not, and x is not row-major too. Else row-major (compare torch's suggest_memory_format).
MemoryFormat suggest_memory_format(const Tensor& x);

/// Returns an uninitialised tensor in a format. channels_last needs rank 4.
/// Throws ShapeError if shape and format do not fit.
/// Throws OutOfMemory.
Tensor empty(const Shape& shape, MemoryFormat format, DType dtype, Device device,
             memory::Role role = memory::Role::temporary);

}  // namespace bytetape
