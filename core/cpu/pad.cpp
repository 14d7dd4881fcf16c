// Writes each element of y once. pad: the padding at both ends of each dim is filled, and x is copied to the rest.
// triangle: one part of each row is copied, and the other one is filled.
#include "bytetape/core/kernels/pad.h"
#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/indices.h"
#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
namespace {

template <class V>
V slab(const V& y, int dim, std::int64_t start, std::int64_t length) {
  V v(y.template as<char>() + start * slice_step(y, dim), y.dtype, y.device, y.shape, y.strides);
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

void triangle(const TriangleArgs& a) {
  if (a.y.numel() == 0) return;
  const int row = a.y.rank() - 2, column = row + 1;
  const std::int64_t rows = a.y.shape[row], columns = a.y.shape[column];
  const auto write_row = [&](std::int64_t i) {
    const std::int64_t first = a.is_upper ? 0 : 1;  // the lower triangle has the column of the diagonal
    const std::int64_t low = std::clamp<std::int64_t>(a.diagonal, -rows, columns),
                       begin = std::clamp<std::int64_t>(i + low + first, 0, columns);
    const View y = slab(a.y, row, i, 1), before = slab(y, column, 0, begin),
               after = slab(y, column, begin, columns - begin);
    const ConstView x = slab(a.x, row, i, 1);
    fill(0, a.is_upper ? before : after);
    if (a.is_upper)
      copy(slab(x, column, begin, columns - begin), after);
    else
      copy(slab(x, column, 0, begin), before);
  };
  parallel_for(rows, std::max<std::int64_t>(grain / (a.y.numel() / rows), 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) write_row(i);
               });
}

}  // namespace

const PadKernels& pad_kernels() {
  static const PadKernels all{.pad = pad, .triangle = triangle};
  return all;
}

}  // namespace bytetape::cpu
