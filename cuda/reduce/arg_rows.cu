// The largest or smallest elements of long rows, such as logits. A block finds one row's, or a cluster of blocks does
// if there are few rows. An element and its index are one 64-bit number, and the largest such number wins. So the
// result does not depend on the partition.
#include "bytetape/cuda/reduce/arg_rows.h"

#include <cstdint>

#include "bytetape/core/visit.h"
#include "bytetape/cuda/async_copy.cuh"
#include "bytetape/cuda/index.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/runtime/cluster.cuh"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/overlap.cuh"

namespace bytetape::cuda {
namespace {

constexpr int warps = block_size / 32, unroll = 4, most_blocks = 8;  // blocks of a row; not all GPUs allow more
constexpr std::int64_t shortest = 4096;                              // the row from which this pays

template <class T>
struct Arguments {
  Offsets<2> rows;  // of x, and of the results
  const T* x;
  std::int64_t* indices;
  T* values;  // may be null
  std::int64_t n;
  int blocks;  // of a row
  bool is_max;
};

/// A thread's best element so far. Its elements come in the order of their indices, so the first of equals wins.
class Best {
 public:
  /// Takes an element whose sort key is `key` and whose index is `at`.
  __device__ void take(std::uint32_t key, std::uint32_t at) {
    if (key > key_) key_ = key, at_ = at;
  }
  /// Returns a number that is larger for larger keys, and among equal keys for smaller indices.
  __device__ std::uint64_t packed() const { return std::uint64_t{key_} << 32 | ~at_; }
  __device__ static std::uint32_t index(std::uint64_t packed) { return ~static_cast<std::uint32_t>(packed); }

 private:
  std::uint32_t key_ = 0, at_ = ~0u;
};

/// Returns a number that is larger the earlier v wins: for NaN the largest, and the same for -0 and 0.
__device__ std::uint32_t key_of(float v, bool is_max) {
  if (v != v) return ~0u;
  const std::uint32_t bits = __float_as_uint(v + 0.f), ordered = bits >> 31 ? ~bits : bits | 1u << 31;
  return is_max ? ordered : ~ordered;
}

struct Largest {
  __device__ std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a > b ? a : b; }
};

/// Finds the best of the block's part of a row. Vectors begin at the first aligned address.
template <class T>
__device__ std::uint64_t best_of_block(const Arguments<T>& a, const T* row, int rank) {
  constexpr int width = vector_width<T>;
  __shared__ Packed<T, width> staging[unroll][block_size];
  const std::int64_t misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row) / sizeof(T) % width);
  const std::int64_t head = misaligned ? width - misaligned : 0, vectors = (a.n - head) / width,
                     tail = head + vectors * width;
  const int t = static_cast<int>(threadIdx.x), step = a.blocks * block_size;
  Best best;
  const auto take = [&](T v, std::int64_t at) {
    best.take(key_of(widened(v), a.is_max), static_cast<std::uint32_t>(at));
  };
  if (rank == 0 && t < head) take(row[t], t);
  for (std::int64_t v = rank * block_size + t; v < vectors; v += unroll * step) {
    // Beyond the end the last vector is taken again, which changes nothing.
    const auto first = [&](int u) { return head + min(v + u * step, vectors - 1) * width; };
#pragma unroll
    for (int u = 0; u < unroll; ++u) copy_async(&staging[u][t], row + first(u), true);
    wait_for_copies();
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const Packed<T, width> loaded = staging[u][t];
#pragma unroll
      for (int k = 0; k < width; ++k) take(loaded.values[k], first(u) + k);
    }
  }
  if (rank == 0 && tail + t < a.n) take(row[tail + t], tail + t);
  return reduce_block<WarpOrder::tree, warps>(Largest(), best.packed(), block_size);
}

template <class T>
__global__ void __launch_bounds__(block_size) arg_rows_kernel(Turn turn, const __grid_constant__ Arguments<T> a) {
  __shared__ std::uint64_t all[most_blocks];
  const auto blocks = static_cast<unsigned>(a.blocks);
  const int rank = static_cast<int>(blockIdx.x % blocks);
  if (blocks > 1) announce_to_cluster();
  wait_for_earlier_work(turn);
  std::int64_t offsets[2] = {};
  a.rows.add(blockIdx.x / blocks, offsets);
  const T* const row = a.x + offsets[0];
  std::uint64_t best = best_of_block(a, row, rank);
  if (blocks > 1) {
    wait_for_cluster();  // the first block has started
    if (threadIdx.x == 0) *of_rank(&all[rank], 0) = best;
    arrive_at_cluster();
    wait_for_cluster();
    if (rank != 0) return;
    for (int b = 1; b < a.blocks; ++b) best = Largest()(best, all[b]);
  }
  if (threadIdx.x != 0) return;
  const std::int64_t at = Best::index(best);
  a.indices[offsets[1]] = at;
  if (a.values) a.values[offsets[1]] = row[at];
}

template <class T>
void launch(bool is_max, const ConstView& x, const Walk<2>& rows, std::int64_t n, const View& values,
            const View& indices) {
  constexpr std::int64_t enough = 132;  // blocks that keep a large GPU busy
  const std::int64_t count = numel(rows.shape);
  int blocks = 1;
  while (can_overlap(x.device) && blocks < most_blocks && count * 2 * blocks <= enough &&
         n > blocks * block_size * vector_width<T>)
    blocks *= 2;
  launch_overlapping({.device = x.device,
                      .blocks = static_cast<unsigned>(count * blocks),
                      .threads = block_size,
                      .cluster = blocks,
                      .writes = {&indices, &values}},
                     arg_rows_kernel<T>,
                     Arguments<T>{.rows = Offsets<2>(rows),
                                  .x = x.as<T>(),
                                  .indices = indices.as<std::int64_t>(),
                                  .values = values.as<T>(),
                                  .n = n,
                                  .blocks = blocks,
                                  .is_max = is_max});
}

}  // namespace

bool arg_extreme_of_rows(bool is_max, const ConstView& x, int dim, const View& values, const View& indices) {
  const std::int64_t n = x.shape[dim];
  if (x.strides[dim] != 1 || n < shortest || n >= index_limit || indices.numel() >= index_limit / most_blocks)
    return false;
  Walk<2> rows{indices.shape, {&x.strides, &indices.strides}};
  rows.complete();
  switch (x.dtype) {
    case DType::f32:
      launch<float>(is_max, x, rows, n, values, indices);
      return true;
    case DType::bf16:
      launch<BFloat16>(is_max, x, rows, n, values, indices);
      return true;
    case DType::f16:
      launch<Half>(is_max, x, rows, n, values, indices);
      return true;
    default:
      return false;
  }
}

}  // namespace bytetape::cuda
