#pragma once
// Sums of columns, for a second launch that adds up rows from the blocks of a first one. A block takes a few columns,
// so that 32 bytes of a row are read together, and many threads share each column.
#include <cstdint>

#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {

inline constexpr int side_by_side = 8, sharing = block_size / side_by_side;

/// The number of blocks for `columns` columns.
inline unsigned column_blocks(std::int64_t columns) {
  return static_cast<unsigned>((columns + side_by_side - 1) / side_by_side);
}

/// The column of a thread, and the first of its rows. Its rows are `sharing` apart.
__device__ inline std::int64_t column_of_thread() {
  return std::int64_t{blockIdx.x} * side_by_side + threadIdx.x % side_by_side;
}
__device__ inline std::int64_t row_of_thread() { return threadIdx.x / side_by_side; }

/// Returns the sum of v over the threads that share a column, to each of them. Every thread of the block must call
/// this.
__device__ inline double sum_of_column(double v) {
  __shared__ double shared[block_size / 32][side_by_side];
  for (int apart = side_by_side; apart < 32; apart *= 2) v += __shfl_xor_sync(~0u, v, apart);
  if (threadIdx.x % 32 < side_by_side) shared[threadIdx.x / 32][threadIdx.x % 32] = v;
  __syncthreads();
  double total = 0;
  for (int warp = 0; warp < block_size / 32; ++warp) total += shared[warp][threadIdx.x % side_by_side];
  __syncthreads();  // all threads have read what the next call overwrites
  return total;
}

/// Sums `shares` (blocks, 2, n) over the blocks, into two vectors of n. One of them may be null.
template <class C>
__global__ void __launch_bounds__(block_size)
    add_shares_kernel(const C* shares, std::int64_t blocks, std::int64_t n, C* first, C* second) {
  const std::int64_t column = column_of_thread();
  C* const to = column < n ? first : second;
  double sum = 0;
  if (column < 2 * n && to)
#pragma unroll 4
    for (std::int64_t b = row_of_thread(); b < blocks; b += sharing)
      sum += static_cast<double>(shares[b * 2 * n + column]);
  sum = sum_of_column(sum);
  if (row_of_thread() == 0 && column < 2 * n && to) to[column < n ? column : column - n] = static_cast<C>(sum);
}
template <class C>
void add_shares(const C* shares, std::int64_t blocks, std::int64_t n, C* first, C* second, cudaStream_t stream) {
  add_shares_kernel<<<column_blocks(2 * n), block_size, 0, stream>>>(shares, blocks, n, first, second);
  check_launch();
}

}  // namespace bytetape::cuda
