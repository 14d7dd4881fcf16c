// The mean and variance of each channel, and the update of the running statistics.
#include "bytetape/cuda/norm/batch_norm.h"
#include "bytetape/cuda/norm/batch_norm_runs.cuh"

namespace bytetape::cuda {
namespace {

/// 1 / v, in f32 approximately, because exact divisions take a good part of the time of a small image.
__device__ float inverse(float v) { return __fdividef(1.0f, v); }
__device__ double inverse(double v) { return 1 / v; }

/// A thread's means and sums of squared deviations for `lanes` channels, and its number of pixels. Results are inf or
/// NaN if the squares of a channel add up to more than C's largest number. Merged after Chan, Golub & LeVeque,
/// "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
template <class C, int lanes_>
struct Moments {
  using Number = C;
  static constexpr int lanes = lanes_, size = 2 * lanes + 1;
  C numbers[size] = {};

  __device__ C& first(int k) { return numbers[k]; }           // the mean
  __device__ C& second(int k) { return numbers[lanes + k]; }  // the squares
  __device__ C& count() { return numbers[2 * lanes]; }
  __device__ void set_count(C n) { count() = n; }
  __device__ void merge(Moments& o) {
    const C total = count() + o.count();
    if (total == 0) return;
    const C share = o.count() * inverse(total), weight = count() * share;
    for (int k = 0; k < lanes; ++k) {
      const C delta = o.first(k) - first(k);
      first(k) += delta * share;
      second(k) += o.second(k) + delta * delta * weight;
    }
    count() = total;
  }
  /// Takes one division, unlike merge(), which takes one for each warp.
  __device__ static Pair<C> merged(const WarpPairs<C>& all) {
    C count = 0, sum = 0;
#pragma unroll
    for (int w = 0; w < all.warps; ++w) count += all.counts[w], sum += all.counts[w] * all.at(w).first;
    const C mean = count == 0 ? 0 : sum * inverse(count);
    C squares = 0;
#pragma unroll
    for (int w = 0; w < all.warps; ++w) {
      const C distance = all.at(w).first - mean;
      squares += all.at(w).second + all.counts[w] * distance * distance;
    }
    return {mean, squares};
  }
};

/// Computes the statistics of a channel from its moments. Moments are of differences from the channel's first pixel,
/// its pivot. Without a pivot, rounding of large values would hide small differences.
template <class T>
struct Statistics {
  using C = compute_t<T>;
  const T* pivots;
  std::int64_t stride;
  double share, unbiased_share;  // 1 / count, 1 / (count - 1)
  double momentum;
  ChannelResult<T> mean, var, running_mean, running_var;
  PerChannel<T> old_mean, old_var;
  std::int64_t* batches;

  Statistics(const BatchNormStatisticsArgs& a, std::int64_t count)
      : pivots(a.x.as<T>()),
        stride(a.x.strides[1]),
        share(1 / static_cast<double>(count)),
        unbiased_share(1 / static_cast<double>(count - 1)),
        momentum(a.momentum),
        mean(a.mean),
        var(a.var),
        running_mean(a.running_mean),
        running_var(a.running_var),
        old_mean(a.running_mean),
        old_var(a.running_var),
        batches(a.batches.as<std::int64_t>()) {}
  /// The old values of a channel.
  struct Known {
    T pivot;
    C mean, var;
  };
  __device__ Known of(std::int64_t c) const { return {pivots[c * stride], old_mean.at(c, 0), old_var.at(c, 0)}; }
  __device__ void operator()(std::int64_t c, const Known& known, double distance, double m2) const {
    const double pivot = widened(known.pivot);
    mean.set(c, pivot + distance);
    var.set(c, m2 * share);
    running_mean.set(c, moved(known.mean, pivot + distance));
    running_var.set(c, moved(known.var, m2 * unbiased_share));
    if (batches && c == 0) ++*batches;
  }

 private:
  __device__ double moved(double from, double towards) const { return from * (1 - momentum) + towards * momentum; }
};

/// Adds up to `at_once` pixels from p on, `step` apart. If `full`, all of them are before `end`.
template <bool full, int at_once, class T, int lanes, class C = compute_t<T>>
__device__ void add_pixels(Moments<C, lanes>& to, const Pixels<1>& pixels, const T* x, std::int64_t c,
                           const C (&pivot)[lanes], std::int64_t p, const Run& run) {
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
template <class T, int lanes, class C = compute_t<T>>
__global__ void __launch_bounds__(run_threads)
    moments_kernel(Pixels<1> pixels, const T* x, Partials<C> partials, Statistics<T> finish) {
  constexpr int at_once = 8;
  const std::int64_t c = first_channel<lanes>();
  Moments<C, lanes> mine;
  if (c < pixels.channels) {
    const auto first = load<lanes>(x + c * pixels.channel_strides[0]);
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
    with_lanes<T, 1>(pixels, {&a.x}, [&](auto lanes) {
      const Tiles tiles(pixels, lanes, run_threads, widest_run<lanes>);
      const dim3 blocks(tiles.count, static_cast<unsigned>(plan.algorithm));
      moments_kernel<T, lanes><<<blocks, tiles.threads, 0, stream>>>(pixels, a.x.as<T>(), partials, finish);
    });
    check_launch();
  });
}

}  // namespace bytetape::cuda
