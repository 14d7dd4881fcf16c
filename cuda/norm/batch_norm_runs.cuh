#pragma once
// Sums over pixels. The pixels are dealt to runs with a block each, which leave two numbers for each channel. The last
// of the blocks that share channels combines these numbers in the order of the runs. If there is only one run, its
// numbers are the result.
//
// All runs go from the image's end to its beginning together. A kernel that has just written the image leaves its end
// in the L2 cache. The runs leave its beginning there, for the next reader.
#include "bytetape/cuda/norm/batch_norm.cuh"
#include "bytetape/cuda/norm/batch_norm.h"
#include "bytetape/cuda/runtime/arrivals.cuh"

namespace bytetape::cuda {

/// Threads side by side, each with 16 bytes of a pixel or with one channel. The number is small, so that the combining
/// blocks are many and have little work each.
template <int lanes>
constexpr int widest_run = lanes > 1 ? 8 : 32;

/// How the pixels of an image are dealt to runs: in parts of some pixels for each thread, and the rest in one share for
/// each run. Shares of the last runs may be smaller or empty.
struct Deal {
  std::int64_t pixels, rest;
  std::int64_t of_run, part, share;  // pixels of a run in whole parts, in one of them, and in its share
  std::int64_t runs_part;            // pixels in one part of all runs

  Deal(std::int64_t pixels, std::int64_t runs, unsigned rows, int pixels_of_thread)
      : pixels(pixels), part(std::int64_t{rows} * pixels_of_thread), runs_part(runs * part) {
    rest = pixels % runs_part;
    of_run = pixels / runs_part * part;
    share = (rest + runs - 1) / runs;
  }
  __device__ std::int64_t pixels_of(std::int64_t run) const {
    return of_run + max(std::int64_t{0}, min(rest - run * share, share));
  }
};

/// Pixels of a thread: every blockDim.y-th from `first` down, none below `last`.
struct Part {
  std::int64_t first, last;
  __device__ bool has(int u) const { return first - std::int64_t{u} * blockDim.y >= last; }
  /// Pixel number u, or `last` if there are fewer, which is in the image in any case.
  __device__ std::int64_t at(int u) const { return max(first - std::int64_t{u} * blockDim.y, last); }
};

/// Takes the pixels of this block's run, part by part.
class Run {
 public:
  __device__ explicit Run(const Deal& deal) : deal_(deal), left_(deal.pixels) {}
  /// Whether the next part is whole.
  __device__ bool is_whole() const { return left_ >= deal_.runs_part; }
  __device__ bool is_done() const { return left_ == 0; }
  __device__ Part take() {
    const std::int64_t all = min(left_, deal_.runs_part), mine = is_whole() ? deal_.part : deal_.share;
    const std::int64_t end = left_ - blockIdx.y * mine;  // of the block
    const Part part{end - 1 - threadIdx.y, max(end - mine, left_ - all)};
    left_ -= all;
    return part;
  }

 private:
  const Deal& deal_;
  std::int64_t left_;  // pixels that no run has taken yet
};

/// Two numbers for each run and channel. `data` is null if there is one run.
template <class C>
struct Partials {
  C* data;
  std::int64_t channels;
  Deal deal;
  unsigned* arrivals;  // counters of the blocks that share channels

  Partials(void* data, std::int64_t runs, std::int64_t channels, const Deal& deal, Device device)
      : data(runs > 1 ? static_cast<C*>(data) : nullptr),
        channels(channels),
        deal(deal),
        arrivals(runs > 1 ? cuda::arrivals(device) : nullptr) {}
  __device__ C* at(std::int64_t run, int which, std::int64_t c) const {
    return data + (2 * run + which) * channels + c;
  }
};

/// The two numbers of a channel.
template <class C>
struct Pair {
  C first = 0, second = 0;
};

/// The two numbers of a channel and the count of its pixels that each warp of a block has.
template <class C>
struct WarpPairs {
  static constexpr int size = run_threads / 32;
  const C *first, *second, *counts;
  int stride;  // between the first or second numbers of two warps

  __device__ Pair<C> at(int warp) const { return {first[warp * stride], second[warp * stride]}; }
  __device__ C pixels(int warp) const { return counts[warp]; }
};

/// Merges the accumulators of a block's threads: within each warp, then over the warps in their order. Rows of `width`
/// threads, at most `widest` and at most a warp, have the same channels. Returns the numbers of the block's channel
/// number `thread`, if there is one.
template <int widest, class A>
__device__ Pair<typename A::Number> merge_rows(A& mine, unsigned thread, unsigned width) {
  using C = typename A::Number;
  constexpr int warps = WarpPairs<C>::size, lanes = A::lanes;
  for (unsigned apart = 16; apart >= width; apart /= 2) {
    A other;
    for (int i = 0; i < A::size; ++i) other.numbers[i] = __shfl_down_sync(~0u, mine.numbers[i], apart);
    mine.merge(other);
  }
  __shared__ C first[warps][widest * lanes], second[warps][widest * lanes], counts[warps];
  const unsigned warp = thread / 32, lane = thread % 32;
  for (int k = 0; lane < width && k < lanes; ++k) {
    first[warp][lane * lanes + k] = mine.first(k);
    second[warp][lane * lanes + k] = mine.second(k);
  }
  if (lane == 0) counts[warp] = mine.count();
  __syncthreads();
  if (thread >= width * lanes) return {};
  return A::merged(WarpPairs<C>{&first[0][thread], &second[0][thread], counts, widest * lanes});
}

/// Two sums for each channel of a thread.
template <class C, int lanes_>
struct PairSums {
  using Number = C;
  static constexpr int lanes = lanes_, size = 2 * lanes;
  C numbers[size] = {};

  __device__ C& first(int k) { return numbers[k]; }
  __device__ C& second(int k) { return numbers[lanes + k]; }
  __device__ C count() const { return 0; }
  __device__ void set_count(C) {}
  __device__ void merge(const PairSums& o) {
    for (int i = 0; i < size; ++i) numbers[i] += o.numbers[i];
  }
  template <class Pairs>
  __device__ static Pair<C> merged(const Pairs& all) {
    Pair<C> sums;
#pragma unroll
    for (int i = 0; i < all.size; ++i) sums.first += all.at(i).first, sums.second += all.at(i).second;
    return sums;
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

/// Merges the runs for the channels of this block, and finishes them. All threads share the channels evenly.
template <int lanes, template <class, int> class A, class C, class F>
__device__ void finish_channels(const Partials<C>& partials, std::int64_t runs, const F& finish, const End<F>& end) {
  constexpr int width = std::min<int>(lanes, 16 / sizeof(C)), at_once = 4;
  const unsigned thread = end.i, columns = blockDim.x * (lanes / width);
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x * lanes + thread % columns * width;
  const std::int64_t step = run_threads / columns;
  A<C, width> mine;
  for (std::int64_t run = thread / columns; c < partials.channels && run < runs; run += at_once * step) {
    A<C, width> of_runs[at_once];
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      if (run + u * step >= runs) continue;
      const auto first = load<width>(partials.at(run + u * step, 0, c));
      const auto second = load<width>(partials.at(run + u * step, 1, c));
      for (int k = 0; k < width; ++k) of_runs[u].first(k) = first.values[k], of_runs[u].second(k) = second.values[k];
      of_runs[u].set_count(static_cast<C>(partials.deal.pixels_of(run + u * step)));
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u) mine.merge(of_runs[u]);
  }
  const auto total = merge_rows<widest_run<lanes>*(lanes / width)>(mine, thread, columns);
  if (end.is_mine) finish(end.c, end.known, total.first, total.second);
}

/// Merges the accumulators of a block's threads over the block, then over the runs. Then calls finish(channel, known,
/// first, second), where `known` is finish.of(channel). Every thread of the block must call this.
template <template <class, int> class A, class C, int lanes, class F>
__device__ void finish_run(A<C, lanes>& mine, const Partials<C>& partials, const F& finish) {
  const End<F> end(finish, blockDim.x * lanes, partials.channels);
  const auto total = merge_rows<widest_run<lanes>>(mine, end.i, blockDim.x);
  if (!partials.data) {
    if (end.is_mine) finish(end.c, end.known, total.first, total.second);
    return;
  }
  if (end.is_mine) {
    *partials.at(blockIdx.y, 0, end.c) = total.first;
    *partials.at(blockIdx.y, 1, end.c) = total.second;
  }
  if (is_last_to_arrive(partials.arrivals + blockIdx.x, gridDim.y))
    finish_channels<lanes, A>(partials, gridDim.y, finish, end);
}

}  // namespace bytetape::cuda
