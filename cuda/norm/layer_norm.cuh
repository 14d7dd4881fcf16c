#pragma once
// Layer normalisation. Up to 32 threads share a row, or a whole block where the row is long; they hold it in registers,
// so that it is read once, up to 8192 elements.
#include <algorithm>

#include "bytetape/core/kernels/layer_norm.h"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {

/// Elements that lie together, or `otherwise` so often where nothing is given.
template <int lanes, class C>
__device__ Packed<C, lanes> load_or(const C* from, std::int64_t at, C otherwise) {
  if (from) return load<lanes>(from + at);
  Packed<C, lanes> same;
  for (int k = 0; k < lanes; ++k) same.values[k] = otherwise;
  return same;
}
inline constexpr int wide_block = 512;

/// The sums of v over the threads of a row (x), in a fixed order; each of them gets them. Rows are side by side in a
/// warp, or one is the whole block; every thread of the block calls this.
template <int K, class C>
__device__ void sum_over_row(C (&v)[K]) {
  for (unsigned apart = min(blockDim.x, 32u) / 2; apart > 0; apart /= 2)
    for (int k = 0; k < K; ++k) v[k] += __shfl_xor_sync(~0u, v[k], apart);
  if (blockDim.x <= 32) return;
  __shared__ C shared[K][wide_block / 32];
  __syncthreads();  // all have read what was left last time
  if (threadIdx.x % 32 == 0)
    for (int k = 0; k < K; ++k) shared[k][threadIdx.x / 32] = v[k];
  __syncthreads();
  for (int k = 0; k < K; ++k) {
    C total = 0;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += shared[k][warp];
    v[k] = total;
  }
}

/// Threads of a row: a power of two up to a warp's, or whole warps.
inline unsigned row_threads(std::int64_t vectors, int held) {
  if (vectors > std::int64_t{32} * held)
    return static_cast<unsigned>((vectors + std::int64_t{32} * held - 1) / (std::int64_t{32} * held) * 32);
  unsigned threads = 1;
  while (threads < 32 && threads < vectors) threads *= 2;
  return threads;
}

/// f(lanes, held, threads) for rows of n elements: how many neighbours a thread takes at once, how often, and the
/// threads (x) of as many rows (y) as a block takes; held is 0 where a row is too long.
template <class T, class F>
void with_layout(std::int64_t n, bool is_aligned, F&& f) {
  constexpr int most = 16 / sizeof(T), few = most > 4 ? 1 : 2, many = 4 * few, many_single = 8;
  const auto with = [&](auto lanes, auto held) {
    const unsigned x = row_threads(n / lanes, held);
    f(lanes, held, dim3(x, x > 32 ? 1 : block_size / x));
  };
  const auto fits = [&](int lanes, int held, int threads) {
    return n <= std::int64_t{lanes} * held * threads && n % lanes == 0;
  };
  using std::integral_constant;
  if (is_aligned && fits(most, few, 32))
    with(integral_constant<int, most>(), integral_constant<int, few>());
  else if (is_aligned && fits(most, many, block_size))
    with(integral_constant<int, most>(), integral_constant<int, many>());
  else if (is_aligned && n % most == 0)
    f(integral_constant<int, most>(), integral_constant<int, 0>(), dim3(wide_block));
  else if (fits(1, many_single, block_size))
    with(integral_constant<int, 1>(), integral_constant<int, many_single>());
  else
    f(integral_constant<int, 1>(), integral_constant<int, 0>(), dim3(wide_block));
}

template <class T>
bool aligned(std::initializer_list<const ConstView*> views) {
  return std::all_of(views.begin(), views.end(),
                     [](const ConstView* v) { return detail::is_aligned<T>(*v, static_cast<int>(16 / sizeof(T))); });
}
/// The same for coefficients, of which as many are taken at once.
template <class T>
bool coefficients_aligned(std::initializer_list<const ConstView*> views) {
  return std::all_of(views.begin(), views.end(), [](const ConstView* v) {
    return detail::is_aligned<compute_t<T>>(*v, static_cast<int>(16 / sizeof(T)));
  });
}

/// Blocks that keep the device busy with rows, of which each takes `at_once`.
inline unsigned row_blocks(std::int64_t rows, unsigned at_once, Device device) {
  return static_cast<unsigned>(std::min((rows + at_once - 1) / at_once, std::int64_t{processors(device)} * 16));
}

void layer_norm_backward(const LayerNormBackwardArgs& args, const Plan& plan, Workspace ws);

}  // namespace bytetape::cuda
