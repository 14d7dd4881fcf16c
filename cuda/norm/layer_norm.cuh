#pragma once
// Layer normalisation. Up to 32 threads share a row, or a whole block if the row is long. They hold up to 8192 elements
// in registers, so that the row is read once.
#include <algorithm>

#include "bytetape/core/norm_types.h"
#include "bytetape/cuda/norm/layer_norm.h"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {

/// Converts elements to T.
template <class T, class S, int lanes>
__device__ Packed<T, lanes> converted(const Packed<S, lanes>& from) {
  if constexpr (std::is_same_v<T, S>) {
    return from;
  } else {
    Packed<T, lanes> to;
    for (int k = 0; k < lanes; ++k) to.values[k] = narrowed<T>(widened(from.values[k]));
    return to;
  }
}
/// Loads adjacent coefficients, or returns `otherwise` for each if `from` is null.
template <int lanes, class W, class C>
__device__ Packed<C, lanes> load_or(const W* from, std::int64_t at, C otherwise) {
  if (from) return converted<C>(load<lanes>(from + at));
  Packed<C, lanes> same;
  for (int k = 0; k < lanes; ++k) same.values[k] = otherwise;
  return same;
}

inline constexpr int wide_block = 512;

/// Sums each v[k] over the threads of a row (x) in a fixed order. Each thread gets the sums. A warp holds several rows,
/// or the whole block holds one. Every thread of the block must call this.
template <int K, class C>
__device__ void sum_over_row(C (&v)[K]) {
  reduce_block<WarpOrder::from_zero, wide_block / 32>(Plus(), v, static_cast<int>(blockDim.x));
}

/// The number of threads of a row: a power of two up to a warp, or whole warps.
inline unsigned row_threads(std::int64_t vectors, int held) {
  if (vectors > std::int64_t{32} * held)
    return static_cast<unsigned>((vectors + std::int64_t{32} * held - 1) / (std::int64_t{32} * held) * 32);
  unsigned threads = 1;
  while (threads < 32 && threads < vectors) threads *= 2;
  return threads;
}

/// Calls f(lanes, held, threads) for rows of n elements. A thread handles `lanes` neighbours at once and holds `held`
/// such vectors; 0 if a row is too long. `threads` are those of a row (x), and the rows of a block (y).
template <class T, class F>
void with_layout(std::int64_t n, bool is_aligned, F&& f) {
  constexpr int most = 16 / sizeof(T), few = most > 4 ? 1 : 2, many = 4 * few, many_single = 8;
  constexpr bool is_single = sizeof(T) == sizeof(float);
  constexpr int some = is_single ? 6 : many;  // for 768 elements in f32: with fewer registers, more rows are in flight
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
  else if (is_single && is_aligned && fits(most, some, 32))
    with(integral_constant<int, most>(), integral_constant<int, some>());
  else if (is_aligned && fits(most, many, block_size))
    with(integral_constant<int, most>(), integral_constant<int, many>());
  else if (is_aligned && n % most == 0)
    f(integral_constant<int, most>(), integral_constant<int, 0>(), dim3(wide_block));
  else if (fits(1, many_single, block_size))
    with(integral_constant<int, 1>(), integral_constant<int, many_single>());
  else
    f(integral_constant<int, 1>(), integral_constant<int, 0>(), dim3(wide_block));
}

/// The bytes of a vector of coefficients, which are of type W and as many as 16 bytes of T.
template <class T, class W = compute_t<T>>
constexpr std::size_t coefficient_bytes = 16 / sizeof(T) * sizeof(W);

/// The number of blocks that keep the device busy, each with `at_once` rows at a time.
inline unsigned row_blocks(std::int64_t rows, unsigned at_once, Device device) {
  return static_cast<unsigned>(std::min((rows + at_once - 1) / at_once, std::int64_t{processors(device)} * 16));
}

}  // namespace bytetape::cuda
