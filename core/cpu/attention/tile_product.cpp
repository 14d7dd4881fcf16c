#include "bytetape/core/cpu/attention/tile_product.h"

#include <algorithm>

#include "bytetape/core/cpu/register_block.h"
#include "bytetape/core/cpu/transpose.h"

namespace bytetape::cpu {
namespace {

/// Adds to whole vectors of columns of y.
template <class T>
void add_columns(const Matrix<const T>& a, const T* b, std::int64_t b_step, int vectors, T* y, std::int64_t y_step) {
  for (std::int64_t i = 0; i < a.rows; i += most_rows) {
    const std::int64_t rows = std::min<std::int64_t>(most_rows, a.rows - i);
    multiply_block<Into::add>(a.block(i, 0, rows, a.cols), b, b_step, vectors, y + i * y_step, y_step);
  }
}

/// Adds to fewer columns than a vector has, one by one.
template <class T>
void add_rest(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& y) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.cols; ++k) {
      const T factor = a.data[i * a.row_step + k * a.col_step];
      const T* const from = b.data + k * b.row_step;
      T* const to = y.data + i * y.row_step;
      for (std::int64_t j = 0; j < y.cols; ++j) to[j] += factor * from[j];
    }
}

}  // namespace

template <class T>
Matrix<const T> with_unit_col_step(Matrix<const T> b, T* buffer) {
  if (b.col_step == 1) return b;
  to_row_major(b, b.cols, b.cols, buffer);
  return row_major<const T>(buffer, b.rows, b.cols);
}

template <class T>
void add_product(Matrix<const T> a, Matrix<const T> b, Matrix<T> y) {
  std::int64_t j = 0;
  while (y.cols - j >= vector_width<T>) {
    const auto vectors = static_cast<int>(std::min<std::int64_t>(most_vectors, (y.cols - j) / vector_width<T>));
    add_columns(a, b.data + j, b.row_step, vectors, y.data + j, y.row_step);
    j += std::int64_t{vectors} * vector_width<T>;
  }
  if (j < y.cols) add_rest(a, b.block(0, j, b.rows, y.cols - j), y.block(0, j, y.rows, y.cols - j));
}

template Matrix<const float> with_unit_col_step(Matrix<const float>, float*);
template Matrix<const double> with_unit_col_step(Matrix<const double>, double*);
template void add_product(Matrix<const float>, Matrix<const float>, Matrix<float>);
template void add_product(Matrix<const double>, Matrix<const double>, Matrix<double>);

}  // namespace bytetape::cpu
