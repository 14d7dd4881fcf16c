// The statistics and the result of batch normalisation in one launch.
#include "bytetape/cuda/norm/batch_norm.h"
#include "bytetape/cuda/norm/batch_norm_forward.cuh"
#include "bytetape/cuda/norm/batch_norm_held.cuh"
#include "bytetape/cuda/norm/batch_norm_moments.cuh"

namespace bytetape::cuda {
namespace {

template <class T, int inputs>
struct Images {
  const T* in[inputs];  // x, and a residual
  T* y;
};

/// The moments of a thread's pixels, relative to `pivots`.
template <class T, int lanes, int per_thread, class C = compute_t<T>>
__device__ Moments<C, lanes> moments_of(Packed<T, lanes> (&x)[per_thread], const Packed<T, lanes>& pivots,
                                        const HeldPlace<lanes, per_thread>& at) {
  Moments<C, lanes> moments;
  int n = 0;
#pragma unroll
  for (int u = 0; u < per_thread; ++u) {
    if (!at.is_pixel(u)) continue;
    ++n;
#pragma unroll
    for (int k = 0; k < lanes; ++k) moments.first(k) += widened(x[u].values[k]) - widened(pivots.values[k]);
  }
  const C share = n == 0 ? 0 : inverse(static_cast<C>(n));
  moments.count() = static_cast<C>(n);
#pragma unroll
  for (int k = 0; k < lanes; ++k) moments.first(k) *= share;
  keep_packed(x);
#pragma unroll
  for (int u = 0; u < per_thread; ++u) {
    if (!at.is_pixel(u)) continue;
#pragma unroll
    for (int k = 0; k < lanes; ++k) {
      const C distance = widened(x[u].values[k]) - widened(pivots.values[k]) - moments.first(k);
      moments.second(k) += distance * distance;
    }
  }
  keep_packed(x);
  return moments;
}

template <class T, int lanes, int per_thread, class F, class C = compute_t<T>>
__global__ void __launch_bounds__(run_threads)
    train_kernel(Turn turn, Held held, Images<T, F::inputs> images, Statistics<T> statistics, F forward) {
  constexpr int inputs = F::inputs;
  const HeldPlace<lanes, per_thread> at(held);
  if (at.ranks > 1) announce_to_cluster();
  wait_for_earlier_work(turn);
  Packed<T, lanes> x[per_thread], residual[per_thread];
  at.load_pixels(x, images.in[0]);
  const auto pivots = load<lanes>(images.in[0] + at.channel);
  const int my_channel = at.block_channel + at.thread;
  typename Statistics<T>::Known known;
  C weight = 1, bias = 0;
  if (at.has_channel()) {
    known = statistics.of(my_channel);
    weight = forward.weight.at(my_channel, 1);
    bias = forward.bias.at(my_channel, 0);
  }
  constexpr bool loads_early = inputs == 2 && per_thread <= 4;
  if constexpr (loads_early) at.load_pixels(residual, images.in[1]);
  auto moments = moments_of(x, pivots, at);
  const Pair<C> total = merge_cluster<Moments>(moments, at);

  __shared__ C means[widest_held * lanes], scales[widest_held * lanes], shifts[widest_held * lanes];
  if (at.has_channel()) {
    const Pair<C> mean_and_var = statistics.of_moments(known, total.first, total.second);
    means[at.thread] = mean_and_var.first;
    scales[at.thread] = forward.scale(weight, mean_and_var.second);
    shifts[at.thread] = bias;
    if (at.rank == 0) statistics(my_channel, known, total.first, total.second);
  }
  __syncthreads();
  typename Normalise<T>::template Numbers<lanes> numbers;
#pragma unroll
  for (int k = 0; k < lanes; ++k) {
    numbers.mean[k] = means[threadIdx.x * lanes + k];
    numbers.scale[k] = scales[threadIdx.x * lanes + k];
    numbers.shift[k] = shifts[threadIdx.x * lanes + k];
  }
#pragma unroll
  for (int u = 0; u < per_thread; ++u) {
    if constexpr (inputs == 2 && !loads_early) residual[u] = load<lanes>(images.in[1] + at.offset(u));
    Packed<T, lanes> y;
#pragma unroll
    for (int k = 0; k < lanes; ++k) {
      C operands[inputs] = {widened(x[u].values[k])};
      if constexpr (inputs == 2) operands[1] = widened(residual[u].values[k]);
      y.values[k] = narrowed<T>(forward(numbers, k, operands));
    }
    if (at.is_pixel(u)) y.store(images.y + at.offset(u));
  }
}

template <class T, int inputs, class... X>
bool launch(const BatchNormTrainArgs& a, const X&... x) {
  const View& y = a.result.y;
  return launch_held<T, 8, inputs + 1>({&y, &x...}, [&](const Held& held, const Launch& geometry, auto per_thread) {
    launch_overlapping(geometry, train_kernel<T, 16 / sizeof(T), per_thread, Forward<T, inputs>>, held,
                       Images<T, inputs>{{x.template as<T>()...}, y.as<T>()}, Statistics<T>(a.statistics, held.count),
                       Forward<T, inputs>(a.result));
  });
}

}  // namespace

bool train_at_once(const BatchNormTrainArgs& a) {
  const ConstView& x = a.result.x;
  if (x.numel() == 0 || a.statistics.mean.dtype != accumulated(x.dtype)) return false;
  bool is_done = false;
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) < 8)
      is_done = a.result.residual.defined() ? launch<T, 2>(a, x, a.result.residual) : launch<T, 1>(a, x);
  });
  return is_done;
}

}  // namespace bytetape::cuda
