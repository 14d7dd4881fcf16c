#pragma once
#include <cstdint>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// How an image (n, c, h, w) lies in memory (torch.memory_format).
enum class MemoryFormat : std::uint8_t { contiguous, channels_last };

/// Of images that are made, by convolutions and loaders: the libraries' kernels are fastest there.
inline constexpr MemoryFormat image_format = MemoryFormat::channels_last;
/// Of what an op makes of x: channels-last where x is an image whose channels are innermost, gaps or not, and that is
/// not row-major too; else row-major (compare torch's suggest_memory_format).
MemoryFormat suggest_memory_format(const Tensor& x);

/// Uninitialised, in a format; only rank 4 can be channels-last. Throws ShapeError, OutOfMemory.
Tensor empty(const Shape& shape, MemoryFormat format, DType dtype, Device device,
             memory::Role role = memory::Role::temporary);

}  // namespace bytetape
