#pragma once
// Tiles of tokens in shared memory, and their products on tensor cores, in TF32 with sums in f32. A tile has a row of D
// columns for each token. Tensor cores ignore the bits that TF32 lacks, so factors from tiles are rounded towards 0.
//
// The order of a product's inner dim is free, and so is the order of its columns. Here both are such that a thread
// reads 16 bytes at a time, and that the threads that read together use all banks of shared memory.
#include <cuda_pipeline.h>

#include <cstdint>

#include "bytetape/core/view.h"
#include "bytetape/cuda/matmul/mma.cuh"

namespace bytetape::cuda::flash {

inline constexpr int warps = 4, threads = 32 * warps;
/// The rows of a thread block, where each warp computes `stacks` products of 16 rows.
constexpr int block_rows(int stacks) { return warps * 16 * stacks; }

/// The elements from one row of a tile to the next. It is 4 modulo the number of banks. The last 4 belong to no column.
template <int D>
inline constexpr int pitch = D + 4;
/// The elements of a tile.
template <int D, int rows>
inline constexpr int tile_size = rows* pitch<D>;

/// The place of a thread in a product (mma.cuh): row, or column of the second factor, and word.
__device__ inline int row_of_lane() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ inline int word_of_lane() { return static_cast<int>(threadIdx.x) % 4; }
/// The column of 8 that belongs to column r of a product.
__device__ inline int spread(int r) { return r % 2 * 4 + r / 2; }

/// Tensor (b, h, tokens, d) with adjacent columns.
struct Tokens {
  float* data = nullptr;
  std::int64_t batch = 0, head = 0, token = 0;  // strides

  explicit Tokens(const ConstView& x)
      : data(const_cast<float*>(x.as<float>())), batch(x.strides[0]), head(x.strides[1]), token(x.strides[2]) {}
  __device__ float* at(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return data + b * batch + h * head + i * token;
  }
};

/// Starts to copy `rows` tokens from `from` on. Tokens from `count` on, and columns from d on, are 0.
template <int D, int rows>
__device__ void start_copy(float* tile, const float* from, std::int64_t step, std::int64_t count, int d) {
  constexpr int across = D / 4;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < rows * across; i += threads) {
    const int row = i / across, column = i % across * 4;
    const bool is_there = row < count && column < d;
    __pipeline_memcpy_async(tile + row * pitch<D> + column, is_there ? from + row * step + column : from, 16,
                            is_there ? 0 : 16);
  }
}

/// The warp's rows of a product with `columns` columns. A thread's results are v[m][j][0] and v[m][j][1] of row
/// 16 m + r with r = row_of_lane(), and v[m][j][2] and v[m][j][3] of row 16 m + r + 8.
template <int columns, int stacks>
struct Rows {
  static constexpr int groups = columns / 8;
  float v[stacks][groups][4] = {};
};

/// A warp's rows of the first factor of multiply_rows(), which are read from a tile for each product.
template <int D, int stacks>
class RowsInTile {
 public:
  static constexpr int all_stacks = stacks;
  /// `tile` starts with the warp's first row.
  __device__ explicit RowsInTile(const float* tile) : from_(tile + row_of_lane() * pitch<D> + word_of_lane() * 4) {}
  /// The thread's words of row 16 m + 8 half + r, with r = row_of_lane(), in columns s to s + 15.
  __device__ Vector at(int m, int half, int s) const {
    return Vector::load(from_ + (16 * m + 8 * half) * pitch<D> + s, true);
  }

 private:
  const float* from_;
};

/// The same rows, held in registers.
template <int D, int stacks>
class RowsInRegisters {
 public:
  static constexpr int all_stacks = stacks;
  __device__ explicit RowsInRegisters(const float* tile) {
    const RowsInTile<D, stacks> rows(tile);
#pragma unroll
    for (int m = 0; m < stacks; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int s = 0; s < D; s += 16) v_[m][half][s / 16] = rows.at(m, half, s);
  }
  __device__ Vector at(int m, int half, int s) const { return v_[m][half][s / 16]; }

 private:
  Vector v_[stacks][2][D / 16];
};

/// Returns a b^T for the warp's rows `a` and all `columns` rows of tile `b`. v[m][j] has columns 8 j + t and
/// 8 j + 4 + t, with t = word_of_lane().
template <int D, int columns, class A>
__device__ Rows<columns, A::all_stacks> multiply_rows(const A& a, const float* b) {
  constexpr int stacks = A::all_stacks;
  const float* const from_b = b + spread(row_of_lane()) * pitch<D> + word_of_lane() * 4;
  Rows<columns, stacks> sum;
#pragma unroll
  for (int s = 0; s < D; s += 16) {
    Vector upper[stacks], lower[stacks];
#pragma unroll
    for (int m = 0; m < stacks; ++m) {
      upper[m] = a.at(m, 0, s);
      lower[m] = a.at(m, 1, s);
    }
#pragma unroll
    for (int j = 0; j < sum.groups; ++j) {
      const auto other = Vector::load(from_b + j * 8 * pitch<D> + s, true);
#pragma unroll
      for (int w = 0; w < 4; w += 2)
#pragma unroll
        for (int m = 0; m < stacks; ++m)
          multiply_add<float>(sum.v[m][j],
                              {upper[m].words[w], lower[m].words[w], upper[m].words[w + 1], lower[m].words[w + 1]},
                              other.words[w], other.words[w + 1]);
    }
  }
  return sum;
}

/// sum += p x, where p is a result of multiply_rows() with `rows` columns, and tile x has as many rows.
/// sum.v[m][4 g + i] has columns 32 g + 4 t + i and 32 g + 16 + 4 t + i.
template <int D, int rows, int stacks>
__device__ void multiply_columns(const Rows<rows, stacks>& p, const float* x, Rows<D, stacks>& sum) {
  const float* const from = x + word_of_lane() * pitch<D> + spread(row_of_lane()) * 4;
#pragma unroll
  for (int j = 0; j < p.groups; ++j) {
    std::uint32_t a[stacks][4];
#pragma unroll
    for (int m = 0; m < stacks; ++m)
#pragma unroll
      for (int k = 0; k < 4; ++k) a[m][k] = __float_as_uint(factor(p.v[m][j][k % 2 * 2 + k / 2]));
#pragma unroll
    for (int g = 0; g < D / 32; ++g) {
      const float* const at = from + j * 8 * pitch<D> + g * 32;
      const auto near = Vector::load(at, true), far = Vector::load(at + 4 * pitch<D>, true);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int m = 0; m < stacks; ++m) multiply_add<float>(sum.v[m][4 * g + i], a[m], near.words[i], far.words[i]);
    }
  }
}

/// Calls f(m, half, row) for the thread's rows within the warp's.
template <int stacks, class F>
__device__ void for_rows(const F& f) {
#pragma unroll
  for (int m = 0; m < stacks; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) f(m, half, 16 * m + 8 * half + row_of_lane());
}

/// Stores factor * the thread's columns below d of one of its rows (multiply_columns) at `to`.
template <int D, int stacks>
__device__ void store_row(const Rows<D, stacks>& sum, int m, int half, float factor, float* to, int d) {
#pragma unroll
  for (int g = 0; g < D / 32; ++g)
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int column = 32 * g + 16 * side + 4 * word_of_lane();
      if (column >= d) continue;
      float4 v;
      float* const values = &v.x;
#pragma unroll
      for (int i = 0; i < 4; ++i) values[i] = sum.v[m][4 * g + i][2 * half + side] * factor;
      *reinterpret_cast<float4*>(to + column) = v;
    }
}

}  // namespace bytetape::cuda::flash
