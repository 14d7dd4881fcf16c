#pragma once
// Blocks, masks and launches, for the kernels of flash attention.
#include <algorithm>
#include <numbers>
#include <type_traits>

#include "bytetape/core/kernels/attention.h"
#include "bytetape/cuda/attention/flash_tiles.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda::flash {

/// Exponentials have base 2, which is one instruction.
inline constexpr float base_2 = static_cast<float>(std::numbers::log2e);
inline float base_2_scale(const AttentionInputs& in) { return static_cast<float>(in.scale * std::numbers::log2e); }

/// Two tiles, one of which is copied while the other is used.
template <int D, int rows>
struct Stages {
  float* data;
  __device__ explicit Stages(float* data) : data(data) {}
  __device__ float* at(int stage) const { return data + stage * tile_size<D, rows>; }
  __device__ float* end() const { return at(2); }
};

/// The tokens of a thread block: `rows` of them from `first` on.
template <int rows>
struct Block {
  std::int64_t first, head, batch;

  /// `is_reversed`: the last tokens come first, because they have the most work.
  __device__ Block(const AttentionSizes& s, std::int64_t heads, bool is_reversed) {
    const std::int64_t all = s.batch * heads, index = blockIdx.x, tile = index / all, tiles = gridDim.x / all;
    first = (is_reversed ? tiles - 1 - tile : tile) * rows;
    head = index % all % heads;
    batch = index % all / heads;
  }
  /// The first of the head's rows in (b, h, n).
  __device__ std::int64_t row(const AttentionSizes& s) const { return (batch * s.heads + head) * s.n; }
};

/// The warp's first row within the block.
template <int stacks>
__device__ int warp_first_row() {
  return static_cast<int>(threadIdx.x) / 32 * 16 * stacks;
}

/// Calls f(m, j, k, row, column) for the thread's results v[m][j][k] of multiply_rows().
template <int columns, int stacks, class F>
__device__ void for_results(const Rows<columns, stacks>& s, const F& f) {
#pragma unroll
  for (int m = 0; m < stacks; ++m)
#pragma unroll
    for (int j = 0; j < s.groups; ++j)
#pragma unroll
      for (int k = 0; k < 4; ++k) f(m, j, k, 16 * m + k / 2 * 8 + row_of_lane(), j * 8 + k % 2 * 4 + word_of_lane());
}

/// Which of some keys, from `key` on, the queries from `query` on may attend to.
struct Mask {
  int keys;      // keys that there are
  int diagonal;  // query r sees keys up to r + diagonal

  __device__ Mask(const AttentionSizes& s, std::int64_t query, std::int64_t key)
      : keys(static_cast<int>(min(s.m - key, std::int64_t{most}))),
        diagonal(s.is_causal ? static_cast<int>(max(min(query - key, std::int64_t{most}), -std::int64_t{most}))
                             : most) {}
  __device__ bool shows(int query, int key) const { return key < keys && key <= query + diagonal; }
  /// Whether each query may attend to the first `count` keys.
  __device__ bool shows_all(int count) const { return count <= keys && count - 1 <= diagonal; }
  /// Whether none of the first `count` queries may attend to a key.
  __device__ bool hides_all(int count) const { return count - 1 + diagonal < 0; }

 private:
  static constexpr int most = 1 << 20;
};

/// Calls f(std::integral_constant<int, D>) for tiles of D columns.
template <class F>
void visit_columns(const AttentionSizes& s, const F& f) {
  if (s.d <= 32) return f(std::integral_constant<int, 32>());
  if (s.d <= 64) return f(std::integral_constant<int, 64>());
  f(std::integral_constant<int, 128>());
}

/// The bytes of tiles with `rows` rows.
template <int D>
constexpr int tile_bytes(int rows) {
  return tile_size<D, 1> * rows * static_cast<int>(sizeof(float));
}

/// A block goes through tiles with as many rows as fit into shared memory, in two stages of two tiles, beside `own`
/// rows. Calls f(std::integral_constant<int, rows of a tile>): `most`, or `fewer` if the GPU has just the 99 KiB that
/// all have.
template <int D, int own, int most, int fewer, class F>
void visit_tile_rows(Device device, const F& f) {
  static_assert(tile_bytes<D>(own + 4 * fewer) <= 99 << 10);
  int has = 0;
  check(cudaDeviceGetAttribute(&has, cudaDevAttrMaxSharedMemoryPerBlockOptin, device.index));
  if (tile_bytes<D>(own + 4 * most) <= has) return f(std::integral_constant<int, most>());
  f(std::integral_constant<int, fewer>());
}

/// Launches a block for each `block` tokens of each head, with tiles of `rows` rows in shared memory.
template <int D, class Args>
void launch_blocks(void (*kernel)(Args), const Args& args, int block, int rows, std::int64_t tokens, std::int64_t heads,
                   cudaStream_t stream) {
  const int bytes = tile_bytes<D>(rows);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const auto blocks = static_cast<unsigned>((tokens + block - 1) / block * heads * args.size.batch);
  kernel<<<blocks, threads, static_cast<std::size_t>(bytes), stream>>>(args);
  check_launch();
}

}  // namespace bytetape::cuda::flash
