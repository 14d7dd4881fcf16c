// A block of y stays in registers: six rows, and as many vectors of columns as there are registers for. For each k, the
// elements of six rows of a are broadcast and multiplied with a row of b.
#include "bytetape/core/cpu/attention/tile_product.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace bytetape::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64, most_vectors = 4;
#elif defined(__AVX__)
constexpr int vector_bytes = 32, most_vectors = 2;
#else
constexpr int vector_bytes = 16, most_vectors = 2;
#endif
constexpr int most_rows = 6;

template <class T>
constexpr int width = vector_bytes / static_cast<int>(sizeof(T));

template <class T>
using Vector [[gnu::vector_size(vector_bytes)]] = T;

template <class T>
Vector<T> load(const T* from) {
  Vector<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class T>
void store(const V& v, T* to) {
  std::memcpy(to, &v, sizeof v);
}

template <class T, int rows, int vectors>
void add_block(const Matrix<const T>& a, const T* b, std::int64_t b_step, T* y, std::int64_t y_step) {
  Vector<T> sums[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) sums[r][v] = load(y + r * y_step + v * width<T>);
  const T* from = a.data;
  for (std::int64_t k = 0; k < a.cols; ++k, b += b_step, from += a.col_step) {
    Vector<T> row[vectors];
    for (int v = 0; v < vectors; ++v) row[v] = load(b + v * width<T>);
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) sums[r][v] += from[r * a.row_step] * row[v];
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) store(sums[r][v], y + r * y_step + v * width<T>);
}

/// Calls f(std::integral_constant<int, n>) for n from 1 to `most`.
template <int most, class F>
void with_constant(int n, const F& f) {
  if constexpr (most > 1)
    if (n < most) return with_constant<most - 1>(n, f);
  f(std::integral_constant<int, most>());
}

/// Adds to whole vectors of columns of y.
template <class T, int vectors>
void add_columns(const Matrix<const T>& a, const T* b, std::int64_t b_step, T* y, std::int64_t y_step) {
  for (std::int64_t i = 0; i < a.rows; i += most_rows) {
    const auto rows = static_cast<int>(std::min<std::int64_t>(most_rows, a.rows - i));
    const Matrix<const T> some = a.block(i, 0, rows, a.cols);
    with_constant<most_rows>(
        rows, [&](auto count) { add_block<T, count, vectors>(some, b, b_step, y + i * y_step, y_step); });
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

// Blocks of both matrices stay in the L1 cache.
template <class T>
Matrix<const T> with_unit_col_step(Matrix<const T> b, T* buffer) {
  if (b.col_step == 1) return b;
  constexpr std::int64_t block = 16;
  for (std::int64_t j = 0; j < b.cols; j += block) {
    const std::int64_t end = std::min(j + block, b.cols);
    for (std::int64_t k = 0; k < b.rows; ++k)
      for (std::int64_t c = j; c < end; ++c) buffer[k * b.cols + c] = b.data[k * b.row_step + c * b.col_step];
  }
  return row_major<const T>(buffer, b.rows, b.cols);
}

template <class T>
void add_product(Matrix<const T> a, Matrix<const T> b, Matrix<T> y) {
  std::int64_t j = 0;
  while (y.cols - j >= width<T>) {
    const auto vectors = static_cast<int>(std::min<std::int64_t>(most_vectors, (y.cols - j) / width<T>));
    with_constant<most_vectors>(
        vectors, [&](auto count) { add_columns<T, count>(a, b.data + j, b.row_step, y.data + j, y.row_step); });
    j += std::int64_t{vectors} * width<T>;
  }
  if (j < y.cols) add_rest(a, b.block(0, j, b.rows, y.cols - j), y.block(0, j, y.rows, y.cols - j));
}

template Matrix<const float> with_unit_col_step(Matrix<const float>, float*);
template Matrix<const double> with_unit_col_step(Matrix<const double>, double*);
template void add_product(Matrix<const float>, Matrix<const float>, Matrix<float>);
template void add_product(Matrix<const double>, Matrix<const double>, Matrix<double>);

}  // namespace bytetape::cpu
