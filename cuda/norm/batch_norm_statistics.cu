// The mean and variance of each channel, and the update of the running statistics.
#include "bytetape/cuda/norm/batch_norm.h"
#include "bytetape/cuda/norm/batch_norm_moments.cuh"
#include "bytetape/cuda/norm/batch_norm_runs.cuh"

namespace bytetape::cuda {
namespace {

/// Adds up to `at_once` pixels from p on, `step` apart. If `full`, all of them are before `end`.
template <bool full, int at_once, class T, int lanes, class P, class C = compute_t<T>>
__device__ void add_pixels(Moments<C, lanes>& to, const P& pixels, const T* x, std::int64_t c, const C (&pivot)[lanes],
                           std::int64_t p, const Run& run) {
  Packed<T, lanes> values[at_once];
  int n = 0;
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    if (!full && p + u * run.step >= run.end) break;
    std::int64_t at[1];
    pixels.find(p + u * run.step, c, at);
    values[u] = load<lanes>(x + at[0]);
    n = u + 1;
  }
  const C share = full ? C(1) / at_once : C(1) / static_cast<C>(n);
  Moments<C, lanes> here;
  here.count() = static_cast<C>(full ? at_once : n);
#pragma unroll
  for (int k = 0; k < lanes; ++k) {
    C sum = 0, m2 = 0;
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (full || u < n) sum += widened(values[u].values[k]) - pivot[k];
    const C mean = sum * share;
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (full || u < n) {
        const C distance = widened(values[u].values[k]) - pivot[k] - mean;
        m2 += distance * distance;
      }
    here.first(k) = mean;
    here.second(k) = m2;
  }
  to.merge(here);
}

// Squares are of differences from the mean of a few pixels, which are in registers. The pivot may be too far away.
template <class T, int lanes, class P, class C = compute_t<T>>
__global__ void __launch_bounds__(run_threads)
    moments_kernel(P pixels, const T* x, Partials<C> partials, Statistics<T> finish) {
  constexpr int at_once = 8;
  const std::int64_t c = first_channel<lanes>();
  Moments<C, lanes> mine;
  if (c < pixels.channels) {
    std::int64_t at[1];
    pixels.find(0, c, at);
    const auto first = load<lanes>(x + at[0]);
    C pivot[lanes];
    for (int k = 0; k < lanes; ++k) pivot[k] = widened(first.values[k]);
    const Run run(partials.length, pixels.count);
    std::int64_t p = run.first;
    for (; p + (at_once - 1) * run.step < run.end; p += at_once * run.step)
      add_pixels<true, at_once>(mine, pixels, x, c, pivot, p, run);
    if (p < run.end) add_pixels<false, at_once>(mine, pixels, x, c, pivot, p, run);
  }
  finish_run(mine, partials, finish);
}

}  // namespace

void batch_norm_statistics(const BatchNormStatisticsArgs& a, const Plan& plan, Workspace ws) {
  if (a.x.numel() == 0) return;
  const cudaStream_t stream = stream_of(a.x.device);
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const Pixels<1> pixels({&a.x});
    const Partials<C> partials(ws.data, plan.algorithm, pixels.channels, pixels.count, a.x.device);
    const Statistics<T> finish(a, pixels.count);
    with_lanes<T, 1>(pixels, {&a.x}, [&](auto lanes, const auto& found) {
      const Tiles tiles(pixels, lanes, run_threads, widest_run<lanes>);
      const dim3 blocks(tiles.count, static_cast<unsigned>(plan.algorithm));
      moments_kernel<T, lanes><<<blocks, tiles.threads, 0, stream>>>(found, a.x.as<T>(), partials, finish);
    });
    check_launch();
  });
}

}  // namespace bytetape::cuda
