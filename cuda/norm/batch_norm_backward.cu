// Gradients of batch normalisation. The first pass sums over each channel, and applies the activation's gradient if y
// is given. The second computes gx.
#include "bytetape/cuda/norm/batch_norm.h"
#include "bytetape/cuda/norm/batch_norm_map.cuh"
#include "bytetape/cuda/norm/batch_norm_runs.cuh"
#include "bytetape/cuda/pointwise/gelu.cuh"

namespace bytetape::cuda {
namespace {

// With r = 1 / sqrt(var + eps) and m pixels: gb = sum(gy), gw = r sum(gy (x - mean)), and in training
// gx = weight r (gy - sum(gy) / m - (x - mean) r^2 sum(gy (x - mean)) / m).
template <class T>
struct Gradients {
  using C = compute_t<T>;
  PerChannel<T> weight, var;
  double eps, share;  // share: 1 / m
  ChannelResult<T> gw, gb;
  C* slopes;  // per channel, then the offsets of InputGradient; null if gx does not need them
  std::int64_t channels;

  struct Known {
    C weight, var;
  };
  __device__ Known of(std::int64_t c) const { return {weight.at(c, 1), var.at(c, 1)}; }
  __device__ void operator()(std::int64_t c, const Known& known, double sum, double product) const {
    const double r = ::rsqrt(static_cast<double>(known.var) + eps);
    const double scale = static_cast<double>(known.weight) * r;
    gb.set(c, sum);
    gw.set(c, product * r);
    if (!slopes) return;
    slopes[c] = static_cast<C>(-scale * r * r * product * share);
    slopes[channels + c] = static_cast<C>(-scale * sum * share);
  }
};

/// The source of the activation's gradient: relu's mask from x or y, or gelu_tanh's slope from x. With `_of_sum`, the
/// mask applies to gy plus an addend.
enum class Mask { none, by_x, by_x_of_sum, by_y, by_y_of_sum, gelu_by_x };
template <Mask mask>
constexpr bool is_by_x = mask == Mask::by_x || mask == Mask::by_x_of_sum;
template <Mask mask>
constexpr bool is_by_y = mask == Mask::by_y || mask == Mask::by_y_of_sum;
template <Mask mask>
constexpr bool is_of_sum = mask == Mask::by_x_of_sum || mask == Mask::by_y_of_sum;
/// Whether the masked gradient is stored.
template <Mask mask>
constexpr bool is_kept = is_by_y<mask> || is_of_sum<mask> || mask == Mask::gelu_by_x;
/// The number of images: x, gy, the masked gradient if stored, y if used, and the addend if any.
template <Mask mask>
constexpr int images = 2 + is_kept<mask> + is_by_y<mask> + is_of_sum<mask>;

template <class T>
struct BackwardImages {
  const T *x, *gy, *y, *addend;
  T* masked;
};

template <class T, int lanes, Mask mask, class C = compute_t<T>>
__global__ void __launch_bounds__(run_threads)
    gradient_sums_kernel(Pixels<images<mask>> pixels, BackwardImages<T> in, Normalise<T> normalise,
                         Partials<C> partials, Gradients<T> finish) {
  constexpr int at_once = is_kept<mask> ? 2 : 4;
  const std::int64_t c = first_channel<lanes>();
  PairSums<C, lanes> mine;  // sums of gy, and of gy * (x - mean)
  if (c < pixels.channels) {
    const auto numbers = normalise.template of<lanes>(c);
    const Run run(partials.length, pixels.count);
    for (std::int64_t p = run.first; p < run.end; p += at_once * run.step) {
      Packed<T, lanes> x[at_once], gy[at_once], y[at_once], addend[at_once];
      std::int64_t at[at_once][images<mask>];
#pragma unroll
      for (int u = 0; u < at_once; ++u) {  // issues all loads before the first store
        if (p + u * run.step >= run.end) continue;
        pixels.find(p + u * run.step, c, at[u]);
        x[u] = load<lanes>(in.x + at[u][0]);
        gy[u] = load<lanes>(in.gy + at[u][1]);
        if constexpr (is_by_y<mask>) y[u] = load<lanes>(in.y + at[u][3]);
        if constexpr (is_of_sum<mask>) addend[u] = load<lanes>(in.addend + at[u][images<mask> - 1]);
      }
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        if (p + u * run.step >= run.end) continue;
        for (int k = 0; k < lanes; ++k) {
          const C v = widened(x[u].values[k]);
          if constexpr (is_of_sum<mask>)
            gy[u].values[k] = narrowed<T>(widened(gy[u].values[k]) + widened(addend[u].values[k]));
          if constexpr (is_by_y<mask>)
            if (widened(y[u].values[k]) <= 0) gy[u].values[k] = T();
          if constexpr (mask == Mask::gelu_by_x)
            gy[u].values[k] =
                narrowed<T>(GeluTanhBackward<T>()(widened(narrowed<T>(numbers(k, v))), widened(gy[u].values[k])));
          C g = widened(gy[u].values[k]);
          if constexpr (is_by_x<mask>)
            if (numbers(k, v) <= 0) g = 0;
          mine.first(k) += g;
          mine.second(k) += g * (v - numbers.mean[k]);
        }
        if constexpr (is_kept<mask>) gy[u].store(in.masked + at[u][2]);
      }
    }
  }
  finish_run(mine, partials, finish);
}

template <class T, Mask mask>
void launch_sums(const BatchNormBackwardArgs& a, const std::array<const ConstView*, images<mask>>& views,
                 std::int64_t runs, const Partials<compute_t<T>>& partials, const Gradients<T>& finish) {
  const Pixels<images<mask>> pixels(views);
  const BackwardImages<T> in{a.x.as<T>(), a.gy.as<T>(), a.y.as<T>(), a.addend.as<T>(), a.masked.as<T>()};
  with_lanes<T>(pixels, views, [&](auto lanes) {
    const Tiles tiles(pixels, lanes, run_threads, widest_run<lanes>);
    const dim3 blocks(tiles.count, static_cast<unsigned>(runs));
    gradient_sums_kernel<T, lanes, mask>
        <<<blocks, tiles.threads, 0, stream_of(a.x.device)>>>(pixels, in, Normalise<T>(a), partials, finish);
  });
  check_launch();
}

/// Computes the sums of each channel, from them gw and gb, and the slopes and offsets unless null.
template <class T>
void gradient_sums(const BatchNormBackwardArgs& a, std::int64_t runs, compute_t<T>* slopes, compute_t<T>* scratch) {
  const std::int64_t channels = a.x.shape[1], count = channels == 0 ? 0 : a.x.numel() / channels;
  const Partials<compute_t<T>> partials(scratch, runs, channels, count, a.x.device);
  const Gradients<T> finish{PerChannel<T>(a.weight), PerChannel<T>(a.var),   a.eps,  1 / static_cast<double>(count),
                            ChannelResult<T>(a.gw),  ChannelResult<T>(a.gb), slopes, channels};
  if (a.addend.defined() && a.y.defined())
    launch_sums<T, Mask::by_y_of_sum>(a, {&a.x, &a.gy, &a.masked, &a.y, &a.addend}, runs, partials, finish);
  else if (a.addend.defined())
    launch_sums<T, Mask::by_x_of_sum>(a, {&a.x, &a.gy, &a.masked, &a.addend}, runs, partials, finish);
  else if (a.y.defined())
    launch_sums<T, Mask::by_y>(a, {&a.x, &a.gy, &a.masked, &a.y}, runs, partials, finish);
  else if (a.activation == Activation::gelu_tanh)
    launch_sums<T, Mask::gelu_by_x>(a, {&a.x, &a.gy, &a.masked}, runs, partials, finish);
  else if (a.activation == Activation::relu)
    launch_sums<T, Mask::by_x>(a, {&a.x, &a.gy}, runs, partials, finish);
  else
    launch_sums<T, Mask::none>(a, {&a.x, &a.gy}, runs, partials, finish);
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

/// Computes gx = gy scale + (x - mean) slope + offset. If `masks`, gy is masked by relu's input, computed from x.
template <class T>
struct InputGradient {
  static constexpr int inputs = 2;
  using C = compute_t<T>;
  Normalise<T> normalise;
  bool masks;
  const C* slopes;  // null if slopes and offsets are 0
  std::int64_t channels;

  template <int lanes>
  struct Numbers {
    typename Normalise<T>::template Numbers<lanes> forward;
    Packed<C, lanes> slope, offset;
  };
  template <int lanes>
  __device__ Numbers<lanes> of(std::int64_t c) const {
    Numbers<lanes> n{normalise.template of<lanes>(c), {}, {}};
    if (!slopes) return n;
    n.slope = load<lanes>(slopes + c);
    n.offset = load<lanes>(slopes + channels + c);
    return n;
  }
  template <int lanes>
  __device__ C operator()(const Numbers<lanes>& of_channel, int k, const C (&v)[2]) const {
    const auto& forward = of_channel.forward;
    const C g = masks && forward(k, v[1]) <= 0 ? C(0) : v[0];
    return g * forward.scale[k] + (v[1] - forward.mean[k]) * of_channel.slope.values[k] + of_channel.offset.values[k];
  }
};

}  // namespace

void batch_norm_backward(const BatchNormBackwardArgs& a, const Plan& plan, Workspace ws) {
  if (a.x.shape[1] == 0) return;
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
