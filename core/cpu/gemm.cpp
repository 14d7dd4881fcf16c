// Blocks of b are packed in the order in which multiply_block() reads them, in panels of a few vectors of columns (Goto
// and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008). Blocks of a are packed too, in panels
// of a few rows, unless their rows are contiguous. A panel of b stays in the L1 or L2 cache while it is multiplied with
// all panels of a block of a, which stays in the L2 cache.
#include "bytetape/core/cpu/gemm.h"

#include <algorithm>
#include <type_traits>

#include "bytetape/core/cpu/register_block.h"
#include "bytetape/core/cpu/transpose.h"

namespace bytetape::cpu {
namespace {

constexpr std::int64_t block_rows = gemm_block_rows, block_cols = gemm_block_cols, block_depth = gemm_block_depth;
static_assert(block_rows % most_rows == 0 && block_cols % most_columns<float> == 0);

/// The columns of b with zeros up to a whole vector.
template <class T>
std::int64_t padded(std::int64_t cols) {
  return (cols + vector_width<T> - 1) / vector_width<T> * vector_width<T>;
}
template <class T>
std::size_t packed_a_bytes(std::int64_t m, std::int64_t k) {
  return aligned_bytes(static_cast<std::size_t>(std::min(m, block_rows) * std::min(k, block_depth)) * sizeof(T));
}
template <class T>
std::size_t packed_b_bytes(std::int64_t n, std::int64_t k) {
  return aligned_bytes(static_cast<std::size_t>(padded<T>(std::min(n, block_cols)) * std::min(k, block_depth)) *
                       sizeof(T));
}

/// Packs x (depth, cols) in panels of `most` columns, one after the other. The last panel may have fewer columns, up to
/// `padded_cols` in all. Its columns past x are zeros.
template <int most, class T>
void pack(const Matrix<const T>& x, std::int64_t padded_cols, T* to) {
  for (std::int64_t j = 0; j < x.cols; j += most, to += most * x.rows) {
    const std::int64_t cols = std::min<std::int64_t>(most, x.cols - j),
                       step = std::min<std::int64_t>(most, padded_cols - j);
    const Matrix<const T> panel = x.block(0, j, x.rows, cols);
    if (cols == most) {
      to_row_major(panel, std::integral_constant<std::int64_t, most>(), step, to);
      continue;
    }
    if (cols < step) std::fill_n(to, x.rows * step, T{0});
    to_row_major(panel, cols, step, to);
  }
}

/// Adds the product of a panel of a and a panel of b to y. y may have fewer columns than the panel of b, which is
/// padded.
template <class T>
void add_panels(const Matrix<const T>& a, const T* b, std::int64_t b_cols, const Matrix<T>& y) {
  const auto vectors = static_cast<int>(b_cols / vector_width<T>);
  if (y.cols == b_cols) return multiply_block<Into::add>(a, b, b_cols, vectors, y.data, y.row_step);
  T whole[most_rows * most_columns<T>];  // y with padded rows
  for (std::int64_t i = 0; i < y.rows; ++i)
    std::fill_n(std::copy_n(y.data + i * y.row_step, y.cols, whole + i * b_cols), b_cols - y.cols, T{0});
  multiply_block<Into::add>(a, b, b_cols, vectors, whole, b_cols);
  for (std::int64_t i = 0; i < y.rows; ++i) std::copy_n(whole + i * b_cols, y.cols, y.data + i * y.row_step);
}

/// Whether the rows of a block of a are packed for a result of so many columns. A row is read once per panel of b, so a
/// few panels do not pay for a copy.
template <class T>
bool packs_rows(const Matrix<const T>& a, std::int64_t cols) {
  constexpr std::int64_t few = 128;
  return a.cols > 1 && a.col_step != 1 && (a.row_step != 1 || cols > few);
}

/// Adds the product of a block of a and a packed block of b to y. `scratch` has room for the block of a.
template <class T>
void add_blocks(const Matrix<const T>& a, const T* b, const Matrix<T>& y, T* scratch) {
  const bool packs_a = packs_rows(a, y.cols);
  if (packs_a) pack<most_rows>(a.transposed(), a.rows, scratch);
  const std::int64_t all_cols = padded<T>(y.cols), depth = a.cols;
  for (std::int64_t j = 0; j < y.cols; j += most_columns<T>) {
    const std::int64_t cols = std::min<std::int64_t>(most_columns<T>, all_cols - j);
    for (std::int64_t i = 0; i < y.rows; i += most_rows) {
      const std::int64_t rows = std::min<std::int64_t>(most_rows, y.rows - i);
      add_panels(packs_a ? Matrix<const T>{scratch + i * depth, rows, depth, 1, rows} : a.block(i, 0, rows, depth),
                 b + j * depth, cols, y.block(i, j, rows, std::min(cols, y.cols - j)));
    }
  }
}

}  // namespace

template <class T>
std::size_t gemm_scratch(std::int64_t m, std::int64_t n, std::int64_t k) {
  return packed_a_bytes<T>(m, k) + packed_b_bytes<T>(n, k);
}

template <class T>
void gemm(Matrix<const T> a, Matrix<const T> b, Matrix<T> y, void* scratch) {
  auto* const packed_a = static_cast<T*>(scratch);
  auto* const packed_b = reinterpret_cast<T*>(static_cast<char*>(scratch) + packed_a_bytes<T>(a.rows, a.cols));
  for (std::int64_t j = 0; j < b.cols; j += block_cols) {
    const std::int64_t cols = std::min(block_cols, b.cols - j);
    for (std::int64_t k = 0; k < a.cols; k += block_depth) {
      const std::int64_t depth = std::min(block_depth, a.cols - k);
      pack<most_columns<T>>(b.block(k, j, depth, cols), padded<T>(cols), packed_b);
      for (std::int64_t i = 0; i < a.rows; i += block_rows) {
        const std::int64_t rows = std::min(block_rows, a.rows - i);
        add_blocks(a.block(i, k, rows, depth), packed_b, y.block(i, j, rows, cols), packed_a);
      }
    }
  }
}

template std::size_t gemm_scratch<float>(std::int64_t, std::int64_t, std::int64_t);
template std::size_t gemm_scratch<double>(std::int64_t, std::int64_t, std::int64_t);
template void gemm(Matrix<const float>, Matrix<const float>, Matrix<float>, void*);
template void gemm(Matrix<const double>, Matrix<const double>, Matrix<double>, void*);

}  // namespace bytetape::cpu
