#pragma once
#include <cstddef>
#include <cstdint>

namespace bytetape::cpu {

/// A view of a matrix. Steps are in elements. T is float or double, const or not.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_step = 0, col_step = 1;

  Matrix transposed() const { return {data, cols, rows, col_step, row_step}; }
  Matrix block(std::int64_t row, std::int64_t col, std::int64_t n_rows, std::int64_t n_cols) const {
    return {data + row * row_step + col * col_step, n_rows, n_cols, row_step, col_step};
  }
  operator Matrix<const T>() const { return {data, rows, cols, row_step, col_step}; }
};

/// Returns a row-major matrix without gaps.
template <class T>
Matrix<T> row_major(T* data, std::int64_t rows, std::int64_t cols) {
  return {data, rows, cols, cols, 1};
}

/// Rounds up to a multiple of 64, the alignment of vector loads.
constexpr std::size_t aligned_bytes(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// The blocks that gemm() packs: of a (rows, depth) and of b (depth, cols).
inline constexpr std::int64_t gemm_block_rows = 120, gemm_block_cols = 256, gemm_block_depth = 256;

/// Returns the bytes of scratch that gemm() needs for y (m, n) = a (m, k) @ b (k, n). They are bounded for all sizes.
template <class T>
std::size_t gemm_scratch(std::int64_t m, std::int64_t n, std::int64_t k);

/// Computes y += a @ b on the calling thread. a and b may have any steps, and y must have a col_step of 1. Allocates
/// nothing. The products of gemm_block_depth columns of a are added up in the order of the columns, and their sum is
/// added to the element of y. So its bits do not depend on the other rows of a and columns of b.
template <class T>
void gemm(Matrix<const T> a, Matrix<const T> b, Matrix<T> y, void* scratch);

}  // namespace bytetape::cpu
