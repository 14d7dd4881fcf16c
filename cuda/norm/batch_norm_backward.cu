// Gradients of batch normalisation in two passes, if they cannot be computed at once (batch_norm_gradients.cu). The
// first sums over each channel, and stores the activation's gradient if a later reader needs it. The second computes
// gx.
#include "bytetape/cuda/norm/batch_norm.h"
#include "bytetape/cuda/norm/batch_norm_backward.cuh"
#include "bytetape/cuda/norm/batch_norm_map.cuh"
#include "bytetape/cuda/norm/batch_norm_runs.cuh"

namespace bytetape::cuda {
namespace {

/// The pixels that a thread loads at once. Evenly spaced ones take few registers.
template <class T, Mask mask, class P>
constexpr int sums_at_once = (is_kept<mask> ? 2 : 4) * (P::are_even && sizeof(T) < 8 ? 2 : 1);

template <class T, int lanes, Mask mask, class P, class C = compute_t<T>>
__global__ void __launch_bounds__(run_threads)
    gradient_sums_kernel(P pixels, BackwardImages<T> in, Normalise<T> normalise, Partials<C> partials,
                         Gradients<T> finish) {
  constexpr int at_once = sums_at_once<T, mask, P>;
  const std::int64_t c = first_channel<lanes>();
  PairSums<C, lanes> mine;  // sums of gy, and of gy * (x - mean)
  if (c < pixels.channels && pixels.count > 0) {
    Packed<T, lanes> x[at_once], gy[at_once], y[at_once], addend[at_once];
    std::int64_t at[at_once][images<mask>];
    const auto load_part = [&](const Part& part) {
#pragma unroll
      for (int u = 0; u < at_once; ++u) {  // a pixel in any case: no load waits for a branch
        pixels.find(part.at(u), c, at[u]);
        x[u] = load<lanes>(in.x + at[u][0]);
        gy[u] = is_kept<mask> ? load_once<lanes>(in.gy + at[u][1]) : load<lanes>(in.gy + at[u][1]);
        if constexpr (is_by_y<mask>) y[u] = load_once<lanes>(in.y + at[u][3]);
        if constexpr (is_of_sum<mask>) addend[u] = load_once<lanes>(in.addend + at[u][images<mask> - 1]);
      }
    };
    Run run(partials.deal);
    Part part = run.take();
    load_part(part);  // first, so that the pixels need not wait for the numbers
    const auto numbers = normalise.template of<lanes>(c);
    while (true) {
      keep_packed(x);
      keep_packed(gy);
      if constexpr (is_by_y<mask>) keep_packed(y);
      if constexpr (is_of_sum<mask>) keep_packed(addend);
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        if (!part.has(u)) continue;
#pragma unroll
        for (int k = 0; k < lanes; ++k) {
          const C v = widened(x[u].values[k]);
          gy[u].values[k] = passed<mask>(numbers, k, v, gy[u].values[k], y[u].values[k], addend[u].values[k]);
          const C g = is_masked<mask>(numbers, k, v) ? C(0) : widened(gy[u].values[k]);
          mine.first(k) += g;
          mine.second(k) += g * (v - numbers.mean[k]);
        }
        if constexpr (is_kept<mask>) gy[u].store(in.masked + at[u][2]);
      }
      if (run.is_done()) break;
      part = run.take();
      load_part(part);
    }
  }
  finish_run(mine, partials, finish);
}

template <class T, Mask mask>
void launch_sums(const BatchNormBackwardArgs& a, const std::array<const ConstView*, images<mask>>& views,
                 std::int64_t runs, compute_t<T>* scratch, const Gradients<T>& finish) {
  const Pixels<images<mask>> pixels(views);
  const BackwardImages<T> in{a.x.as<T>(), a.gy.as<T>(), a.y.as<T>(), a.addend.as<T>(), a.masked.as<T>()};
  with_lanes<T>(pixels, views, [&](auto lanes, const auto& found) {
    const Tiles tiles(pixels, lanes, run_threads, widest_run<lanes>);
    const dim3 blocks(tiles.count, static_cast<unsigned>(runs));
    const Deal deal(pixels.count, runs, tiles.threads.y, sums_at_once<T, mask, std::decay_t<decltype(found)>>);
    const Partials<compute_t<T>> partials(scratch, runs, pixels.channels, deal, a.x.device);
    gradient_sums_kernel<T, lanes, mask>
        <<<blocks, tiles.threads, 0, stream_of(a.x.device)>>>(found, in, Normalise<T>(a), partials, finish);
  });
  check_launch();
}

/// Computes the sums of each channel, from them gw and gb, and the slopes and offsets unless null.
template <class T>
void gradient_sums(const BatchNormBackwardArgs& a, std::int64_t runs, compute_t<T>* slopes, compute_t<T>* scratch) {
  const Gradients<T> finish(a, slopes);
  with_mask(a, [&](auto mask, const auto&... views) { launch_sums<T, mask>(a, {&views...}, runs, scratch, finish); });
}

/// Computes gx = gy scale, for constant statistics.
template <class T>
struct ScaledGradient : Normalise<T> {
  static constexpr int inputs = 1;
  using C = compute_t<T>;
  using Normalise<T>::Normalise;
  template <class Numbers>
  __device__ C operator()(const Numbers& of_channel, int k, const C (&gy)[1]) const {
    return gy[0] * of_channel.scale[k];
  }
};

}  // namespace

void batch_norm_backward(const BatchNormBackwardArgs& a, const Plan& plan, Workspace ws) {
  if (a.x.shape[1] == 0 || gradients_at_once(a)) return;
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    C* const slopes = a.training && a.gx.defined() ? static_cast<C*>(ws.data) : nullptr;
    if (has_sums(a))
      gradient_sums<T>(a, plan.algorithm, slopes, static_cast<C*>(ws.data) + (slopes ? 2 * a.x.shape[1] : 0));
    if (!a.gx.defined()) return;
    const ConstView& gy = a.masked.defined() ? a.masked : a.gy;
    const bool masks = a.activation == Activation::relu && !a.y.defined();
    if (a.training || masks)
      map<T>(InputGradient<T>{Normalise<T>(a), masks, slopes, a.x.shape[1]}, a.gx, gy, a.x);
    else
      map<T>(ScaledGradient<T>(a), a.gx, gy);
  });
}

}  // namespace bytetape::cuda
