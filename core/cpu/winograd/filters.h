#pragma once
#include <algorithm>
#include <cstdint>

#include "bytetape/core/cpu/transpose.h"
#include "bytetape/core/cpu/winograd/images.h"

namespace bytetape::cpu::winograd {

/// Filters of 3x3 taps as a matrix: from channel `row` of the input to channel `col` of the result.
class Filters {
 public:
  /// Filters that make y from x.
  static Filters forward(const ConstView& w) {
    return {w.as<float>(), w.strides[1], w.strides[0], {w.strides[2], w.strides[3]}};
  }
  /// Filters that make the gradient of x from that of y: turned by 180 degrees.
  static Filters backward(const ConstView& w) {
    const std::int64_t down = w.strides[2], across = w.strides[3], last = taps - 1;
    return {w.as<float>() + last * (down + across), w.strides[0], w.strides[1], {-down, -across}};
  }

  /// Writes transformed filters, from `row` and `col` on, to all of `to`.
  void transform_block(std::int64_t row, std::int64_t col, const Products& to) const {
    for (std::int64_t c = 0; c < to.cols; c += width)
      for (std::int64_t r = 0; r < to.rows; r += together) {
        const std::int64_t n = std::min(together, to.rows - r);
        V filters[together][taps][taps];
        load(row + r, n, col + c, filters);
        for (std::int64_t k = 0; k < n; ++k) {
          V transformed[points][points];
          transform<WeightTransform>(filters[k], transformed);
          to.store(transformed, r + k, c);
        }
      }
  }

 private:
  static constexpr std::int64_t together = width;  // rows

  Filters(const float* data, std::int64_t row_step, std::int64_t col_step, Size2 step)
      : data_(data), row_step_(row_step), col_step_(col_step), step_(step) {}

  /// Loads a vector of filters for each of n rows.
  void load(std::int64_t row, std::int64_t n, std::int64_t col, V (&to)[together][taps][taps]) const {
    for (int i = 0; i < taps; ++i)
      for (int j = 0; j < taps; ++j) {
        V square[width];
        load_square(data_ + row * row_step_ + col * col_step_ + i * step_.h + j * step_.w, n, square);
        for (std::int64_t k = 0; k < n; ++k) to[k][i][j] = square[k];
      }
  }
  /// Loads n rows of a square of one tap.
  void load_square(const float* from, std::int64_t n, V (&to)[width]) const {
    if (col_step_ == 1) {
      for (std::int64_t k = 0; k < n; ++k) to[k] = cpu::load(from + k * row_step_);
    } else if (row_step_ == 1 && n == width) {
      for (std::int64_t c = 0; c < width; ++c) to[c] = cpu::load(from + c * col_step_);
      transpose(to);
    } else {
      for (std::int64_t k = 0; k < n; ++k)
        for (std::int64_t c = 0; c < width; ++c) to[k][c] = from[k * row_step_ + c * col_step_];
    }
  }

  const float* data_;
  std::int64_t row_step_, col_step_;
  Size2 step_;  // between taps
};

}  // namespace bytetape::cpu::winograd
