#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "bytetape/core/cpu/gemm.h"

// A block of a product whose sums stay in registers: six rows, and as many vectors of columns as there are registers
// for. For each k, the elements of six rows of a are broadcast and multiplied with a row of b.
namespace bytetape::cpu {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64, most_vectors = 4;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32, most_vectors = 2;
#else
inline constexpr int vector_bytes = 16, most_vectors = 2;
#endif
inline constexpr int most_rows = 6;

/// The elements of a vector, and the columns of the largest block.
template <class T>
inline constexpr int vector_width = vector_bytes / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int most_columns = most_vectors* vector_width<T>;

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

/// Whether a product replaces the elements of its result, or is added to them.
enum class Into { set, add };

/// Computes y (+)= a @ b for a (rows, k), with any steps, and b (k, vectors * vector_width). The products of an element
/// of y are added up in the order of k, and their sum is then added to the element. Compilers need the pragmas at -O2
/// to keep the sums in registers.
template <Into into, int rows, int vectors, class T>
void multiply_block(const Matrix<const T>& a, const T* b, std::int64_t b_step, T* y, std::int64_t y_step) {
  Vector<T> sums[rows][vectors] = {};
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) __builtin_prefetch(y + r * y_step, 1);
  const T* from = a.data;
  for (std::int64_t k = 0; k < a.cols; ++k, b += b_step, from += a.col_step) {
    Vector<T> row[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) row[v] = load(b + v * vector_width<T>);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sums[r][v] += from[r * a.row_step] * row[v];
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      T* const to = y + r * y_step + v * vector_width<T>;
      store(into == Into::add ? load(to) + sums[r][v] : sums[r][v], to);
    }
}

/// Calls f(std::integral_constant<int, n>()) for n from 1 to `most`.
template <int most, class F>
void with_constant(int n, const F& f) {
  if constexpr (most > 1)
    if (n < most) return with_constant<most - 1>(n, f);
  f(std::integral_constant<int, most>());
}

/// Calls multiply_block<into, rows, vectors>() for a.rows up to most_rows and `vectors` up to most_vectors.
template <Into into, class T>
void multiply_block(const Matrix<const T>& a, const T* b, std::int64_t b_step, int vectors, T* y, std::int64_t y_step) {
  with_constant<most_vectors>(vectors, [&](auto v) {
    with_constant<most_rows>(static_cast<int>(a.rows),
                             [&](auto r) { multiply_block<into, r, v>(a, b, b_step, y, y_step); });
  });
}

}  // namespace bytetape::cpu
