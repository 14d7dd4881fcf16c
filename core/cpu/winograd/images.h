#pragma once
#include <algorithm>
#include <cstdint>

#include "bytetape/core/cpu/register_block.h"
#include "bytetape/core/cpu/winograd/transform.h"
#include "bytetape/core/integers.h"
#include "bytetape/core/kernels/scratch_parts.h"
#include "bytetape/core/size2.h"
#include "bytetape/core/view.h"

namespace bytetape::cpu::winograd {

using V = Vector<float>;
inline constexpr std::int64_t width = vector_width<float>, panel = most_columns<float>;
inline constexpr std::int64_t channel_multiple = 16;  // a multiple of every width

/// Images (n, h, w, channels) without gaps.
template <class T>
struct Images {
  T* data;
  std::int64_t n, h, w, channels;
  T* pixel(std::int64_t i, std::int64_t row, std::int64_t col) const {
    return data + ((i * h + row) * w + col) * channels;
  }
};
inline Images<const float> images(const ConstView& x) {
  return {x.as<float>(), x.shape[0], x.shape[2], x.shape[3], x.shape[1]};
}
inline Images<float> images(const View& x) { return {x.as<float>(), x.shape[0], x.shape[2], x.shape[3], x.shape[1]}; }

/// The tiles of 4x4 pixels that cover images of h x w pixels.
class Tiles {
 public:
  Tiles(std::int64_t n, std::int64_t h, std::int64_t w)
      : n_(n), rows_(ceil_div(h, std::int64_t{results})), cols_(ceil_div(w, std::int64_t{results})) {}
  std::int64_t size() const { return n_ * rows_ * cols_; }

  struct Place {
    std::int64_t image, row, col;  // of the first pixel
  };
  Place operator[](std::int64_t i) const {
    return {i / (rows_ * cols_), i / cols_ % rows_ * results, i % cols_ * results};
  }

 private:
  std::int64_t n_, rows_, cols_;
};

/// Matrices (rows, cols), one for each of the products of a tile.
struct Products {
  float* data = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_step = 0, size = 0;  // floats from one row, and from one matrix, to the next

  Matrix<float> operator[](int product) const { return {data + product * size, rows, cols, row_step, 1}; }
  Products block(std::int64_t row, std::int64_t col, std::int64_t n_rows, std::int64_t n_cols) const {
    return {data + row * row_step + col, n_rows, n_cols, row_step, size};
  }
  template <int side>
  void store(const V (&from)[side][side], std::int64_t row, std::int64_t col) const {
    float* const to = data + row * row_step + col;
#pragma GCC unroll 8
    for (int i = 0; i < side; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < side; ++j) cpu::store(from[i][j], to + (i * side + j) * size);
  }
  template <int side>
  void load(V (&to)[side][side], std::int64_t row, std::int64_t col) const {
    const float* const from = data + row * row_step + col;
#pragma GCC unroll 8
    for (int i = 0; i < side; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < side; ++j) to[i][j] = cpu::load(from + (i * side + j) * size);
  }
};

/// Computes y = a @ b, or y += a @ b unless `first`. y has at most a panel of columns, in multiples of `width`.
inline void multiply_into(bool first, const Matrix<const float>& a, const Matrix<const float>& b,
                          const Matrix<float>& y) {
  const auto vectors = static_cast<int>(y.cols / width);
  for (std::int64_t i = 0; i < y.rows; i += most_rows) {
    const Matrix<const float> rows = a.block(i, 0, std::min<std::int64_t>(most_rows, y.rows - i), a.cols);
    float* const to = y.data + i * y.row_step;
    if (first)
      multiply_block<Into::set>(rows, b.data, b.row_step, vectors, to, y.row_step);
    else
      multiply_block<Into::add>(rows, b.data, b.row_step, vectors, to, y.row_step);
  }
}

using Parts = ScratchParts<64>;

/// Takes memory for products. Steps between rows and between matrices are odd numbers of cache lines, because caches
/// hold few lines whose distance is a multiple of a large power of two.
inline Products take_products(Parts& scratch, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t line = 16;
  const auto odd_lines = [](std::int64_t n) { return ceil_div(n, line) / 2 * 2 * line + line; };
  const std::int64_t row_step = odd_lines(cols), size = odd_lines(rows * row_step);
  return {scratch.take<float>(products * size), rows, cols, row_step, size};
}

/// Writes the transformed squares of pixels of `count` tiles, from tile `start` on, to the rows of `to`. A square
/// begins `padding` pixels before its tile. Pixels outside of an image are zeros, of which `zeros` is one.
template <class T>
void transform_squares(const Images<const float>& x, const Tiles& tiles, std::int64_t start, std::int64_t count,
                       Size2 padding, const float* zeros, const Products& to) {
  for (std::int64_t t = 0; t < count; ++t) {
    const Tiles::Place at = tiles[start + t];
    const float* pixels[T::from][T::from];
    for (int i = 0; i < T::from; ++i)
      for (int j = 0; j < T::from; ++j) {
        const std::int64_t row = at.row + i - padding.h, col = at.col + j - padding.w;
        const bool inside = row >= 0 && row < x.h && col >= 0 && col < x.w;
        pixels[i][j] = inside ? x.pixel(at.image, row, col) : zeros;
      }
    for (std::int64_t c = 0; c < x.channels; c += width) {
      V from[T::from][T::from], transformed[T::to][T::to];
#pragma GCC unroll 8
      for (int i = 0; i < T::from; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < T::from; ++j) from[i][j] = load(pixels[i][j] + c);
      transform<T>(from, transformed);
      to.store(transformed, t, c);
    }
  }
}

}  // namespace bytetape::cpu::winograd
