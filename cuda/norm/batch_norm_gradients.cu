// The gradients of batch normalisation in one launch.
#include "bytetape/cuda/norm/batch_norm.h"
#include "bytetape/cuda/norm/batch_norm_backward.cuh"
#include "bytetape/cuda/norm/batch_norm_held.cuh"

namespace bytetape::cuda {
namespace {

/// Loads x, and stores the gradients of the activation's input in g. Returns the sums of g and of g (x - mean).
template <Mask mask, class T, int lanes, int per_thread, class C = compute_t<T>>
__device__ PairSums<C, lanes> sums_of(Packed<T, lanes> (&x)[per_thread], Packed<T, lanes> (&g)[per_thread],
                                      const BackwardImages<T>& in, const Normalise<T>& normalise,
                                      const HeldPlace<lanes, per_thread>& at) {
  constexpr int at_once = is_kept<mask> ? 2 : 4;
  PairSums<C, lanes> sums;
  at.load_pixels(x, in.x);
  at.load_pixels(g, in.gy);
  const auto numbers = normalise.template of<lanes>(at.channel);
#pragma unroll
  for (int from = 0; from < per_thread; from += at_once) {
    Packed<T, lanes> y[at_once], addend[at_once];
    if constexpr (is_by_y<mask>) at.load_pixels(y, in.y, from);
    if constexpr (is_of_sum<mask>) at.load_pixels(addend, in.addend, from);
#pragma unroll
    for (int u = from; u < from + at_once; ++u) {
      if (!at.is_pixel(u)) continue;
#pragma unroll
      for (int k = 0; k < lanes; ++k)
        g[u].values[k] = passed<mask>(numbers, k, widened(x[u].values[k]), g[u].values[k], y[u - from].values[k],
                                      addend[u - from].values[k]);
      if constexpr (is_kept<mask>)
        if (in.masked) g[u].store(in.masked + at.offset(u));
#pragma unroll
      for (int k = 0; k < lanes; ++k) {
        const C v = widened(x[u].values[k]);
        if (is_masked<mask>(numbers, k, v)) g[u].values[k] = T();
        sums.first(k) += widened(g[u].values[k]);
        sums.second(k) += widened(g[u].values[k]) * (v - numbers.mean[k]);
      }
      keep_packed(g[u]);
    }
  }
  keep_packed(x);
  return sums;
}

template <class T, int lanes, int per_thread, Mask mask, class C = compute_t<T>>
__global__ void __launch_bounds__(run_threads)
    gradients_kernel(Turn turn, Held held, BackwardImages<T> in, T* gx, Normalise<T> normalise, Gradients<T> finish) {
  const HeldPlace<lanes, per_thread> at(held);
  if (at.ranks > 1) announce_to_cluster();
  wait_for_earlier_work(turn);
  const int my_channel = at.block_channel + at.thread;
  typename Gradients<T>::Known known;
  if (at.has_channel()) known = finish.of(my_channel);
  Packed<T, lanes> x[per_thread], g[per_thread];
  auto sums = sums_of<mask>(x, g, in, normalise, at);
  const Pair<C> total = merge_cluster<PairSums>(sums, at);

  __shared__ alignas(sizeof(C) * lanes) C slopes[widest_held * lanes], offsets[widest_held * lanes];
  if (at.has_channel()) {
    const Pair<C> line = finish.line(known, total.first, total.second);
    slopes[at.thread] = line.first;
    offsets[at.thread] = line.second;
    if (at.rank == 0) finish(my_channel, known, total.first, total.second);
  }
  __syncthreads();
  const typename InputGradient<T>::template Numbers<lanes> numbers{normalise.template of<lanes>(at.channel),
                                                                   load<lanes>(slopes + threadIdx.x * lanes),
                                                                   load<lanes>(offsets + threadIdx.x * lanes)};
#pragma unroll
  for (int u = 0; u < per_thread; ++u) {
    Packed<T, lanes> out;
#pragma unroll
    for (int k = 0; k < lanes; ++k)
      out.values[k] = narrowed<T>(InputGradient<T>::of(numbers, k, widened(g[u].values[k]), widened(x[u].values[k])));
    if (at.is_pixel(u)) out.store(gx + at.offset(u));
  }
}

template <class T, Mask mask, class... X>
bool launch(const BatchNormBackwardArgs& a, const X&... x) {
  // gx overwrites the masked gradient, which need not be stored then.
  T* const masked = a.masked.data() == a.gx.data() ? nullptr : a.masked.as<T>();
  const BackwardImages<T> in{a.x.as<T>(), a.gy.as<T>(), a.y.as<T>(), a.addend.as<T>(), masked};
  constexpr int most = is_kept<mask> ? 4 : 8;  // pixels of a thread: more would fill its registers
  return launch_held<T, most, images<mask> + 1>({&a.gx, &x...}, [&](const Held& held, const Launch& geometry, auto n) {
    launch_overlapping(geometry, gradients_kernel<T, 16 / sizeof(T), n, mask>, held, in, a.gx.as<T>(), Normalise<T>(a),
                       Gradients<T>(a, nullptr));
  });
}

}  // namespace

bool gradients_at_once(const BatchNormBackwardArgs& a) {
  if (!a.training || !a.gx.defined() || a.x.numel() == 0) return false;
  bool is_done = false;
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) < 8)
      with_mask(a, [&](auto mask, const auto&... views) { is_done = launch<T, mask>(a, views...); });
  });
  return is_done;
}

}  // namespace bytetape::cuda
