#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "bytetape/core/cpu/gemm.h"

namespace bytetape::cpu {

inline constexpr std::int64_t transpose_tile = 8;    // rows and columns of the squares that are transposed in registers
inline constexpr std::int64_t transpose_strip = 16;  // rows of a strip of tiles: a cache line of f32 in x

namespace detail {

/// Exchanges the elements of `second` at even multiples of `step` with those of `first` at odd ones, for runs of
/// `step`.
template <int step, class V, int... i>
void exchange(V& first, V& second, std::integer_sequence<int, i...>) {
  constexpr int width = sizeof...(i);
  const V low = __builtin_shufflevector(first, second, (i & step ? width + i - step : i)...);
  second = __builtin_shufflevector(first, second, (i & step ? width + i : i + step)...);
  first = low;
}

template <std::size_t bytes>
using Unsigned = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t, std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;

}  // namespace detail

/// Transposes a square of vectors V of n elements. The shuffles are explicit, because GCC vectorises a plain loop in
/// few of its callers.
template <int step = 1, class V, std::size_t n>
void transpose(V (&x)[n]) {
  constexpr auto width = static_cast<int>(n);
#pragma GCC unroll 16
  for (int i = 0; i < width; ++i)
    if (!(i & step)) detail::exchange<step>(x[i], x[i + step], std::make_integer_sequence<int, width>());
  if constexpr (2 * step < width) transpose<2 * step>(x);
}

/// Sets y (transpose_tile, transpose_tile) to x transposed. Steps are those of rows, in elements.
template <class T>
void transpose(const T* x, std::int64_t x_step, T* y, std::int64_t y_step) {
  using Row [[gnu::vector_size(transpose_tile * sizeof(T))]] = detail::Unsigned<sizeof(T)>;
  Row rows[transpose_tile];
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < transpose_tile; ++i) std::memcpy(&rows[i], x + i * x_step, sizeof(Row));
  transpose(rows);
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < transpose_tile; ++i) {
    void* const to = y + i * y_step;  // a void pointer, as elements may be of a class
    std::memcpy(to, &rows[i], sizeof(Row));
  }
}

/// Sets y (rows, cols) to x (cols, rows) transposed. Both have a column step of 1. Steps are those of rows, in
/// elements.
template <class T>
void transpose(const T* x, std::int64_t x_step, T* y, std::int64_t y_step, std::int64_t rows, std::int64_t cols) {
  const auto elements = [&](std::int64_t first_row, std::int64_t end_row, std::int64_t first_col) {
    for (std::int64_t d = first_row; d < end_row; ++d)
      for (std::int64_t i = first_col; i < cols; ++i) y[d * y_step + i] = x[i * x_step + d];
  };
  const std::int64_t whole_cols = cols / transpose_tile * transpose_tile;
  for (std::int64_t strip = 0; strip < rows; strip += transpose_strip) {
    const std::int64_t end = std::min(strip + transpose_strip, rows);
    const std::int64_t whole_end = strip + (end - strip) / transpose_tile * transpose_tile;
    for (std::int64_t i = 0; i < whole_cols; i += transpose_tile)
      for (std::int64_t d = strip; d < whole_end; d += transpose_tile)
        transpose(x + i * x_step + d, x_step, y + d * y_step + i, y_step);
    elements(strip, whole_end, whole_cols);
    elements(whole_end, end, 0);
  }
}

/// Copies x, with any steps, to row-major `to`, whose rows have `step` elements. `cols` is the number of x's columns.
/// It may be a compile-time constant (std::integral_constant), and copies of rows then have a constant size.
template <class T, class Cols>
void to_row_major(const Matrix<const T>& x, Cols cols, std::int64_t step, T* to) {
  if (x.col_step == 1) {
    for (std::int64_t i = 0; i < x.rows; ++i) std::copy_n(x.data + i * x.row_step, std::int64_t{cols}, to + i * step);
    return;
  }
  if (x.row_step == 1) return transpose(x.data, x.col_step, to, step, x.rows, std::int64_t{cols});
  constexpr std::int64_t together = 8;  // rows, which may share cache lines of x
  for (std::int64_t k = 0; k < x.rows; k += together)
    for (std::int64_t j = 0; j < cols; ++j)
      for (std::int64_t i = k; i < std::min(k + together, x.rows); ++i)
        to[i * step + j] = x.data[i * x.row_step + j * x.col_step];
}

}  // namespace bytetape::cpu
