#pragma once
// The mean and variance of a channel: how parts of its pixels are merged, and what they become.
#include "bytetape/cuda/norm/batch_norm_runs.cuh"

namespace bytetape::cuda {

/// 1 / v, in f32 approximately, because exact divisions take a good part of the time of a small image.
__device__ inline float inverse(float v) { return __fdividef(1.0f, v); }
__device__ inline double inverse(double v) { return 1 / v; }

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
  /// Takes one division, unlike merge(), which takes one for each of `all`.
  template <class Pairs>
  __device__ static Pair<C> merged(const Pairs& all) {
    C count = 0, sum = 0;
#pragma unroll
    for (int i = 0; i < all.size; ++i) count += all.pixels(i), sum += all.pixels(i) * all.at(i).first;
    const C mean = count == 0 ? 0 : sum * inverse(count);
    C squares = 0;
#pragma unroll
    for (int i = 0; i < all.size; ++i) {
      const C distance = all.at(i).first - mean;
      squares += all.at(i).second + all.pixels(i) * distance * distance;
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
  /// Returns the mean and variance that operator() stores if their dtype is C's.
  __device__ Pair<C> of_moments(const Known& known, double distance, double m2) const {
    return {static_cast<C>(widened(known.pivot) + distance), static_cast<C>(m2 * share)};
  }
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

}  // namespace bytetape::cuda
