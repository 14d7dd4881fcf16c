#pragma once
// Sums over pixels. The pixels are cut into runs with a block each, which leave two numbers for each channel. The last
// of the blocks that share channels combines these numbers in the order of the runs. If there is only one run, its
// numbers are the result.
#include "bytetape/cuda/norm/batch_norm.cuh"
#include "bytetape/cuda/runtime/arrivals.cuh"

namespace bytetape::cuda {

/// Threads of a block. Few large blocks leave little to combine.
inline constexpr int run_threads = 512;
/// Threads side by side, each with 16 bytes of a pixel or with one channel. The number is small, so that the combining
/// blocks are many and have little work each.
template <int lanes>
constexpr int widest_run = lanes > 1 ? 8 : 32;
/// The most channels of a block.
inline constexpr int most_channels = 64;

/// The pixels of this block's run. A thread takes every blockDim.y-th from its first one on.
struct Run {
  std::int64_t first, end, step;
  __device__ Run(std::int64_t length, std::int64_t pixels)
      : first(blockIdx.y * length + threadIdx.y), end(min(blockIdx.y * length + length, pixels)), step(blockDim.y) {}
};

inline std::int64_t run_length(std::int64_t pixels, std::int64_t runs) { return (pixels + runs - 1) / runs; }

/// Two numbers for each run and channel. `data` is null if there is one run.
template <class C>
struct Partials {
  C* data;
  std::int64_t channels;
  unsigned* arrivals;  // counters of the blocks that share channels

  Partials(void* data, std::int64_t channels, Device device)
      : data(static_cast<C*>(data)), channels(channels), arrivals(data ? cuda::arrivals(device) : nullptr) {}
  __device__ C* at(std::int64_t run, int which, std::int64_t c) const {
    return data + (2 * run + which) * channels + c;
  }
};

/// Merges the accumulators of a block's threads into the first row of threads. A row has `width` threads, at most
/// `widest` and at most a warp. Merges within each warp first, then across warps.
template <int widest, class A>
__device__ void merge_rows(A& mine, unsigned thread, unsigned width) {
  A other;
  for (unsigned apart = 16; apart >= width; apart /= 2) {
    for (int i = 0; i < A::size; ++i) other.numbers[i] = __shfl_down_sync(~0u, mine.numbers[i], apart);
    mine.merge(other);
  }
  __shared__ typename A::Number shared[A::size][run_threads / 64 * widest];
  const unsigned warp = thread / 32, lane = thread % 32;
  for (unsigned half = run_threads / 64; half > 0; half /= 2) {
    if (warp >= half && warp < 2 * half && lane < width)
      for (int i = 0; i < A::size; ++i) shared[i][(warp - half) * width + lane] = mine.numbers[i];
    __syncthreads();
    if (warp < half && lane < width) {
      for (int i = 0; i < A::size; ++i) other.numbers[i] = shared[i][warp * width + lane];
      mine.merge(other);
    }
    __syncthreads();  // all values are read before the next ones are written
  }
}

/// Two sums for each channel of a thread.
template <class C, int lanes>
struct PairSums {
  using Number = C;
  static constexpr int size = 2 * lanes;
  C numbers[size] = {};

  __device__ C& first(int k) { return numbers[k]; }
  __device__ C& second(int k) { return numbers[lanes + k]; }
  __device__ void merge(const PairSums& o) {
    for (int i = 0; i < size; ++i) numbers[i] += o.numbers[i];
  }
};

/// The channel that a thread finishes, one of the block's. The numbers that it needs are loaded while other threads
/// add.
template <class F>
struct End {
  const unsigned i = threadIdx.y * blockDim.x + threadIdx.x;  // number of the thread in the block
  const std::int64_t c;
  const bool is_mine;
  typename F::Known known;

  __device__ End(const F& finish, unsigned count, std::int64_t channels)
      : c(std::int64_t{blockIdx.x} * count + i), is_mine(i < count && c < channels) {
    if (is_mine) known = finish.of(c);
  }
};

/// Adds up the runs for the channels of this block, and finishes them. All threads share the channels evenly.
template <int lanes, class C, class F>
__device__ void finish_channels(const Partials<C>& partials, std::int64_t runs, const F& finish, const End<F>& end) {
  constexpr int width = std::min<int>(lanes, 16 / sizeof(C)), at_once = 4;
  const unsigned thread = end.i, columns = blockDim.x * (lanes / width);
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x * lanes + thread % columns * width;
  PairSums<double, width> sums;
  Packed<C, width> pivot{};
  if (c < partials.channels) {
    pivot = load<width>(partials.at(0, 0, c));
    const std::int64_t step = run_threads / columns;
    for (std::int64_t run = thread / columns; run < runs; run += at_once * step) {
      Packed<C, width> first[at_once], second[at_once];
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        if (run + u * step >= runs) continue;
        first[u] = load<width>(partials.at(run + u * step, 0, c));
        second[u] = load<width>(partials.at(run + u * step, 1, c));
      }
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        if (run + u * step >= runs) continue;
        for (int k = 0; k < width; ++k)
          finish.add(run + u * step, first[u].values[k], second[u].values[k], pivot.values[k], sums.first(k),
                     sums.second(k));
      }
    }
  }
  merge_rows<widest_run<lanes>*(lanes / width)>(sums, thread, columns);
  __shared__ double totals[3][most_channels];
  for (int k = 0; thread < columns && k < width; ++k) {
    const unsigned at = thread * width + k;
    totals[0][at] = sums.first(k), totals[1][at] = sums.second(k), totals[2][at] = pivot.values[k];
  }
  __syncthreads();
  if (end.is_mine) finish(end.c, end.known, totals[0][end.i], totals[1][end.i], totals[2][end.i]);
}

/// Merges the accumulators of a block's threads, A::first(lane) and A::second(lane), over the block, then over the
/// runs.
///
/// With one run, calls finish(channel, known, first, second). With several, calls finish.add(run, first, second, pivot,
/// sums...) for each run, then finish(channel, known, sums..., pivot). `known` is finish.of(channel). `pivot` is the
/// first number of the first run. Every thread of the block must call this.
template <int lanes, class A, class F>
__device__ void finish_run(A& mine, const Partials<typename A::Number>& partials, const F& finish) {
  using C = typename A::Number;
  const End<F> end(finish, blockDim.x * lanes, partials.channels);
  merge_rows<widest_run<lanes>>(mine, end.i, blockDim.x);
  const bool is_first = threadIdx.y == 0;
  if (!partials.data) {
    __shared__ double totals[2][most_channels];
    for (int k = 0; is_first && k < lanes; ++k) {
      const unsigned at = threadIdx.x * lanes + k;
      totals[0][at] = mine.first(k), totals[1][at] = mine.second(k);
    }
    __syncthreads();
    if (end.is_mine) finish(end.c, end.known, totals[0][end.i], totals[1][end.i]);
    return;
  }
  constexpr int width = std::min<int>(lanes, 16 / sizeof(C));
  const std::int64_t c = first_channel<lanes>();
  for (int k = 0; is_first && c < partials.channels && k < lanes; k += width) {
    Packed<C, width> first, second;
    for (int i = 0; i < width; ++i) first.values[i] = mine.first(k + i), second.values[i] = mine.second(k + i);
    first.store(partials.at(blockIdx.y, 0, c + k));
    second.store(partials.at(blockIdx.y, 1, c + k));
  }
  if (is_last_to_arrive(partials.arrivals + blockIdx.x, gridDim.y))
    finish_channels<lanes>(partials, gridDim.y, finish, end);
}

}  // namespace bytetape::cuda
