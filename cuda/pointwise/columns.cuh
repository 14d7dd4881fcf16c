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

/// Sums the columns of a block of which each thread has n. `across` threads, a power of two up to a warp, are side by
/// side; the others share their columns. Adds within warps, then across warps. Returns the sum of column
/// threadIdx.x % (across * n). Every thread of the block must call this.
template <int widest, int n>
__device__ double sum_columns(double (&v)[n], int across) {
  __shared__ double shared[block_size / 32][widest * n];
  const int t = threadIdx.x, lane = t % 32;
#pragma unroll
  for (int k = 0; k < n; ++k)
    for (int apart = across; apart < 32; apart *= 2) v[k] += __shfl_xor_sync(~0u, v[k], apart);
  __syncthreads();  // all threads have read the previous call's values
  if (lane < across)
    for (int k = 0; k < n; ++k) shared[t / 32][lane * n + k] = v[k];
  __syncthreads();
  double total = 0;
  for (const auto& of_warp : shared) total += of_warp[t & (across * n - 1)];
  return total;
}
/// Returns the sum of v over the threads that share a column, to each of them.
__device__ inline double sum_of_column(double v) {
  double one[1] = {v};
  return sum_columns<side_by_side>(one, side_by_side);
}

/// Sums `shares` (blocks, vectors, n) over the blocks, into one or two vectors of n. Vectors may be null.
template <int vectors, class C>
__global__ void __launch_bounds__(block_size)
    add_shares_kernel(const C* shares, std::int64_t blocks, std::int64_t n, C* first, C* second) {
  const std::int64_t column = column_of_thread();
  C* const to = column < n ? first : second;
  double sum = 0;
  if (column < vectors * n && to)
#pragma unroll 4
    for (std::int64_t b = row_of_thread(); b < blocks; b += sharing)
      sum += static_cast<double>(shares[b * vectors * n + column]);
  sum = sum_of_column(sum);
  if (row_of_thread() == 0 && column < vectors * n && to) to[column < n ? column : column - n] = static_cast<C>(sum);
}
template <int vectors, class C>
void add_shares(const C* shares, std::int64_t blocks, std::int64_t n, C* first, C* second, cudaStream_t stream) {
  add_shares_kernel<vectors><<<column_blocks(vectors * n), block_size, 0, stream>>>(shares, blocks, n, first, second);
  check_launch();
}

}  // namespace bytetape::cuda
