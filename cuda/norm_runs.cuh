#pragma once
// Sums over pixels in two stages: the pixels are cut into runs, of a block each, which leave two numbers a channel; a
// second launch puts those together in a fixed order. Of a single run the numbers are the channel's at once.
#include "bytetape/cuda/columns.cuh"
#include "bytetape/cuda/norm.cuh"

namespace bytetape::cuda {

/// Pixels of this block's run, and of the thread those that are blockDim.y apart from the first on.
struct Run {
  std::int64_t first, end, step;
  __device__ Run(std::int64_t length, std::int64_t pixels)
      : first(blockIdx.y * length + threadIdx.y), end(min(blockIdx.y * length + length, pixels)), step(blockDim.y) {}
};

inline std::int64_t run_length(std::int64_t pixels, std::int64_t runs) {
  return runs == 0 ? 0 : (pixels + runs - 1) / runs;
}

/// Two numbers for each run and channel; null where there is one run.
template <class C>
struct Partials {
  C* data;
  std::int64_t channels;
  __device__ C& at(std::int64_t run, int which, std::int64_t c) const { return data[(2 * run + which) * channels + c]; }
};

/// Merges what the threads of a block hold for the same channels into the first of them.
template <class A>
__device__ void merge_rows(A& mine) {
  __shared__ typename A::Number shared[A::size][block_size];
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    if (threadIdx.y >= half && threadIdx.y < 2 * half)
      for (int i = 0; i < A::size; ++i) shared[i][at] = mine.numbers[i];
    __syncthreads();  // one is enough: the next to write are none of those that are read here
    if (threadIdx.y < half) {
      A other;
      for (int i = 0; i < A::size; ++i) other.numbers[i] = shared[i][at + half * blockDim.x];
      mine.merge(other);
    }
  }
}

/// What the block's threads hold for their channels, as A's first() and second() of a lane, merged and sent to where
/// runs are put together; of a single run, to finish(channel, first, second). Every thread of the block calls this.
template <int lanes, class A, class F>
__device__ void finish_run(A& mine, const Partials<typename A::Number>& partials, const F& finish) {
  merge_rows(mine);
  const std::int64_t c = first_channel<lanes>();
  if (threadIdx.y > 0 || c >= partials.channels) return;
  for (int k = 0; k < lanes; ++k) {
    if (partials.data) {
      partials.at(blockIdx.y, 0, c + k) = mine.first(k);
      partials.at(blockIdx.y, 1, c + k) = mine.second(k);
    } else {
      finish(c + k, static_cast<double>(mine.first(k)), static_cast<double>(mine.second(k)));
    }
  }
}

}  // namespace bytetape::cuda
