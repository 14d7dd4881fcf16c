// The mean and variance of each channel, and the update of the running statistics.
#include "bytetape/cuda/norm/batch_norm.h"

#include <bit>

#include "bytetape/cuda/norm/batch_norm_moments.cuh"
#include "bytetape/cuda/norm/batch_norm_runs.cuh"

namespace bytetape::cuda {
namespace {

constexpr int at_once = 8;  // pixels of a thread in a part
static_assert(std::has_single_bit(unsigned{at_once}));

/// Adds the pixels of a part. If `full`, it has at_once pixels for each thread.
template <bool full, class T, int lanes, class P, class C = compute_t<T>>
__device__ void add_pixels(Moments<C, lanes>& to, const P& pixels, const T* x, std::int64_t c,
                           const Packed<T, lanes>& pivot, const Part& part) {
  // Eighths of 16-bit numbers add up well without the pivot, and equal ones exactly.
  constexpr bool needs_pivot = !full || sizeof(C) == sizeof(T);
  Packed<T, lanes> values[at_once];
  int n = 0;
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    std::int64_t at[1];
    pixels.find(full ? part.first - std::int64_t{u} * blockDim.y : part.at(u), c, at);
    values[u] = load<lanes>(x + at[0]);
    n += part.has(u);
  }
  const C share = full ? C(1) / at_once : C(1) / static_cast<C>(n);
  Moments<C, lanes> here;
  here.count() = static_cast<C>(full ? at_once : n);
#pragma unroll
  for (int k = 0; k < lanes; ++k) {
    const C offset = needs_pivot ? widened(pivot.values[k]) : C(0);
    C mean = 0, m2 = 0;
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (full || u < n) mean = ::fma(widened(values[u].values[k]) - offset, share, mean);
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (full || u < n) {
        const C distance = widened(values[u].values[k]) - offset - mean;
        m2 += distance * distance;
      }
    here.first(k) = needs_pivot ? mean : mean - widened(pivot.values[k]);
    here.second(k) = m2;
  }
  to.merge(here);
}

// Squares are of differences from the mean of a few pixels, which are in registers. The pivot may be too far away.
template <class T, int lanes, class P, class C = compute_t<T>>
__global__ void __launch_bounds__(run_threads)
    moments_kernel(P pixels, const T* x, Partials<C> partials, Statistics<T> finish) {
  const std::int64_t c = first_channel<lanes>();
  Moments<C, lanes> mine;
  if (c < pixels.channels) {
    std::int64_t at[1];
    pixels.find(0, c, at);
    const auto pivot = load<lanes>(x + at[0]);
    Run run(partials.deal);
    while (run.is_whole()) add_pixels<true>(mine, pixels, x, c, pivot, run.take());
    if (const Part rest = run.take(); rest.has(0)) add_pixels<false>(mine, pixels, x, c, pivot, rest);
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
    const Statistics<T> finish(a, pixels.count);
    with_lanes<T, 1>(pixels, {&a.x}, [&](auto lanes, const auto& found) {
      const Tiles tiles(pixels, lanes, run_threads, widest_run<lanes>);
      const dim3 blocks(tiles.count, static_cast<unsigned>(plan.algorithm));
      const Deal deal(pixels.count, plan.algorithm, tiles.threads.y, at_once);
      const Partials<C> partials(ws.data, plan.algorithm, pixels.channels, deal, a.x.device);
      moments_kernel<T, lanes><<<blocks, tiles.threads, 0, stream>>>(found, a.x.as<T>(), partials, finish);
    });
    check_launch();
  });
}

}  // namespace bytetape::cuda
