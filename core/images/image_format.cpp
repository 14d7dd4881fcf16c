#include "bytetape/core/images/image_format.h"

namespace bytetape {

MemoryFormat suggest_memory_format(const Tensor& x) {
  const bool nhwc = x.rank() == 4 && x.strides()[1] == 1 && !x.is_contiguous();
  return nhwc ? MemoryFormat::channels_last : MemoryFormat::contiguous;
}

Tensor empty(const Shape& shape, MemoryFormat format, DType dtype, Device device, memory::Role role) {
  if (format == MemoryFormat::contiguous) return empty(shape, dtype, device, role);
  bytes_of(shape, dtype);  // first, because strides overflow for shapes that it rejects
  return empty_strided(shape, channels_last_strides(shape), dtype, device, role);
}

}  // namespace bytetape
