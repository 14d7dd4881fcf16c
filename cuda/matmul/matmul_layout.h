#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/matmul.h"
#include "bytetape/cuda/runtime/workspace.h"

namespace bytetape::cuda {

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// How a row-major (batch, rows, cols) view looks to a library that counts columns first: as cols x rows, or where its
/// rows are adjacent as the transpose of that.
struct MatrixLayout {
  std::int64_t leading = 0;  ///< elements from one column of the library's to the next; 0 where it needs a copy
  bool transposed = false;
};

inline MatrixLayout layout_of(const ConstView& x) {
  const std::int64_t rows = x.shape[1], cols = x.shape[2], row_step = x.strides[1], col_step = x.strides[2];
  if ((col_step == 1 || cols == 1) && (rows == 1 || row_step >= cols))
    return {std::max(rows == 1 ? cols : row_step, cols), false};
  if ((row_step == 1 || rows == 1) && (cols == 1 || col_step >= rows))
    return {std::max(cols == 1 ? rows : col_step, rows), true};
  return {};
}

/// Bytes of a dense copy, where x needs one.
inline std::size_t copy_bytes(const ConstView& x) {
  return x.numel() == 0 || layout_of(x).leading ? 0 : aligned(static_cast<std::size_t>(x.numel()) * size_of(x.dtype));
}

/// Products of one call: some of cuBLASLt's kernels have a block for each along a dim of their grid, which has 65,535
/// at most. A power of two, so that the next ones are as aligned as the first.
inline constexpr std::int64_t most_products = std::int64_t{1} << 15;

/// f(first, count) for calls that together make `batch` products.
template <class F>
void for_calls(std::int64_t batch, const F& f) {
  for (std::int64_t first = 0; first < batch; first += most_products) f(first, std::min(most_products, batch - first));
}

/// Bytes that cuBLASLt may use.
std::size_t library_workspace(const MatmulArgs& args, WorkspaceCap cap);

}  // namespace bytetape::cuda
