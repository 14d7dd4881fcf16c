// Each element of y is written once: by the fill of a slab at either end of a dim, or by the copy of what is left.
#include "bytetape/core/kernels/pad.h"
#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
namespace {

View slab(const View& y, int dim, std::int64_t start, std::int64_t length) {
  View v(y.as<char>() + start * y.strides[dim] * static_cast<std::int64_t>(size_of(y.dtype)), y.dtype, y.device,
         y.shape, y.strides);
  v.shape[dim] = length;
  return v;
}

void pad(const PadArgs& a) {
  View inner = a.y;
  for (int d = 0; d < a.x.rank(); ++d) {
    const std::int64_t size = inner.shape[d], before = a.before[d], end = before + a.x.shape[d];
    if (before > 0) fill(a.value, slab(inner, d, 0, before));
    if (end < size) fill(a.value, slab(inner, d, end, size - end));
    inner = slab(inner, d, before, a.x.shape[d]);
  }
  copy(a.x, inner);
}

}  // namespace

const PadKernels& pad_kernels() {
  static const PadKernels all{.pad = pad};
  return all;
}

}  // namespace bytetape::cpu
