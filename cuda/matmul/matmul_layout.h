#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/matmul.h"
#include "bytetape/cuda/runtime/workspace.h"

namespace bytetape::cuda {

/// A large product of 16-bit numbers takes up to seven times as long if a dim is not a multiple of this number, even if
/// all rows are aligned.
inline constexpr std::int64_t dim_multiple = 8;

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// A row-major (batch, rows, cols) view as a column-major library sees it: a cols x rows matrix, or the transpose of
/// one if elements of a column are adjacent.
struct MatrixLayout {
  std::int64_t leading = 0;  ///< leading dimension in elements; 0 if the view must be copied
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

/// Returns the bytes of a dense copy if x needs one, else 0.
inline std::size_t copy_bytes(const ConstView& x) {
  return x.numel() == 0 || layout_of(x).leading ? 0 : aligned(static_cast<std::size_t>(x.numel()) * size_of(x.dtype));
}

/// The most products of one call. Some of cuBLASLt's kernels have a block for each along a grid dim, of at most 65,535.
/// A power of two keeps the alignment of the later calls.
inline constexpr std::int64_t most_products = std::int64_t{1} << 15;

/// Calls f(first, count) for ranges that together cover `batch` products.
template <class F>
void for_calls(std::int64_t batch, const F& f) {
  for (std::int64_t first = 0; first < batch; first += most_products) f(first, std::min(most_products, batch - first));
}

/// Whether the product may apply its activation before z is rounded, or with a tanh of cuBLASLt, whose accuracy is not
/// documented. True only for a tanh GELU in TF32 or 16 bits.
bool approximates(const MatmulArgs& args);
/// Returns the bytes that cuBLASLt may use as workspace.
std::size_t library_workspace(const MatmulArgs& args, WorkspaceCap cap);

}  // namespace bytetape::cuda
