#pragma once
// The gradients of batch normalisation, from the sums over its channels.
#include "bytetape/cuda/norm/batch_norm.cuh"
#include "bytetape/cuda/norm/batch_norm_runs.cuh"
#include "bytetape/cuda/pointwise/gelu.cuh"

namespace bytetape::cuda {

// With r = 1 / sqrt(var + eps) and m pixels: gb = sum(gy), gw = r sum(gy (x - mean)), and in training
// gx = weight r (gy - sum(gy) / m - (x - mean) r^2 sum(gy (x - mean)) / m).
template <class T>
struct Gradients {
  using C = compute_t<T>;
  PerChannel<T> weight, var;
  double eps, share;  // share: 1 / m
  ChannelResult<T> gw, gb;
  C* slopes;  // per channel, then the offsets of InputGradient; null if gx needs none here
  std::int64_t channels;

  Gradients(const BatchNormBackwardArgs& a, C* slopes)
      : weight(a.weight),
        var(a.var),
        eps(a.eps),
        share(static_cast<double>(a.x.shape[1]) / static_cast<double>(a.x.numel())),
        gw(a.gw),
        gb(a.gb),
        slopes(slopes),
        channels(a.x.shape[1]) {}
  struct Known {
    C weight, var;
  };
  __device__ Known of(std::int64_t c) const { return {weight.at(c, 1), var.at(c, 1)}; }
  __device__ double inverse_deviation(const Known& known) const {
    return ::rsqrt(static_cast<double>(known.var) + eps);
  }
  /// The slope and offset of InputGradient.
  __device__ Pair<C> line(const Known& known, double sum, double product) const {
    const double r = inverse_deviation(known), scale = static_cast<double>(known.weight) * r;
    return {static_cast<C>(-scale * r * r * product * share), static_cast<C>(-scale * sum * share)};
  }
  __device__ void operator()(std::int64_t c, const Known& known, double sum, double product) const {
    gb.set(c, sum);
    gw.set(c, product * inverse_deviation(known));
    if (!slopes) return;
    const Pair<C> l = line(known, sum, product);
    slopes[c] = l.first;
    slopes[channels + c] = l.second;
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

/// Calls f(mask, x, gy, ...) with the source of the activation's gradient, and the images of such a pass in their
/// order.
template <class F>
void with_mask(const BatchNormBackwardArgs& a, F&& f) {
  const auto call = [&]<Mask mask>(const auto&... views) { f(std::integral_constant<Mask, mask>(), views...); };
  if (a.addend.defined() && a.y.defined())
    call.template operator()<Mask::by_y_of_sum>(a.x, a.gy, a.masked, a.y, a.addend);
  else if (a.addend.defined())
    call.template operator()<Mask::by_x_of_sum>(a.x, a.gy, a.masked, a.addend);
  else if (a.y.defined())
    call.template operator()<Mask::by_y>(a.x, a.gy, a.masked, a.y);
  else if (a.activation == Activation::gelu_tanh)
    call.template operator()<Mask::gelu_by_x>(a.x, a.gy, a.masked);
  else if (a.activation == Activation::relu)
    call.template operator()<Mask::by_x>(a.x, a.gy);
  else
    call.template operator()<Mask::none>(a.x, a.gy);
}

/// Returns the gradient of the activation's input, from gy, and from x, y and the addend if the mask needs them.
/// `numbers` are those of Normalise. Does not apply a mask by x: is_masked() does.
template <Mask mask, class T, class Numbers, class C = compute_t<T>>
__device__ T passed(const Numbers& numbers, int k, C x, T gy, T y, T addend) {
  if constexpr (is_of_sum<mask>) gy = narrowed<T>(widened(gy) + widened(addend));
  if constexpr (is_by_y<mask>)
    if (widened(y) <= 0) gy = T();
  if constexpr (mask == Mask::gelu_by_x)
    gy = narrowed<T>(GeluTanhBackward<T>()(widened(narrowed<T>(numbers(k, x))), widened(gy)));
  return gy;
}

/// Whether a mask by x, if any, makes the gradient 0.
template <Mask mask, class Numbers, class C>
__device__ bool is_masked(const Numbers& numbers, int k, C x) {
  if constexpr (is_by_x<mask>) return numbers(k, x) <= 0;
  return false;
}

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
    return of(of_channel, k, masks && of_channel.forward(k, v[1]) <= 0 ? C(0) : v[0], v[1]);
  }
  template <int lanes>
  __device__ static C of(const Numbers<lanes>& n, int k, C g, C x) {
    return g * n.forward.scale[k] + (x - n.forward.mean[k]) * n.slope.values[k] + n.offset.values[k];
  }
};

}  // namespace bytetape::cuda
