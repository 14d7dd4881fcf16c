#pragma once
// Shared by the batch normalisation kernels: sums over blocks of pixels, and per-channel values.
#include <cmath>

#include "bytetape/core/cpu/norm/channels.h"
#include "bytetape/core/kernels/batch_norm.h"

namespace bytetape::cpu {

/// Blocks of pixels for sums over pixels of adjacent channels. Each block gives a partial sum, and the partial sums are
/// added in order. Blocks depend on the shape alone, so the number of threads does not change the bits. A block fits
/// the L2 cache.
struct Blocks {
  std::int64_t channels, pixels, length, count;

  explicit Blocks(const ConstView& x) : channels(x.shape[1]), pixels(pixel_count(x)) {
    length = std::max<std::int64_t>(32, 16384 / std::max<std::int64_t>(channels, 1));
    count = (pixels + length - 1) / length;
  }
  std::int64_t work() const { return length * channels; }  // elements of one block
  std::int64_t begin(std::int64_t block) const { return block * length; }
  std::int64_t end(std::int64_t block) const { return std::min(pixels, begin(block) + length); }
};

/// Two doubles per channel, then two numbers per block and channel of the folded image. A channel of x may be several
/// channels of the folded image.
template <class C>
struct Scratch {
  double* totals[2];
  C* partials;
  std::int64_t width;

  Scratch(const Workspace& ws, std::int64_t channels, std::int64_t fold) : width(channels * fold) {
    totals[0] = static_cast<double*>(ws.data);
    totals[1] = totals[0] + channels;
    partials = reinterpret_cast<C*>(totals[1] + channels);
  }
  C* partial(std::int64_t block, int which) const { return partials + (2 * block + which) * width; }
};

inline std::size_t scratch_bytes(const ConstView& x) {
  std::size_t partials = 0;  // the larger of both cases, because gy may have gaps where x has none
  if (channels_adjacent({&x}))
    for (const std::int64_t fold : {std::int64_t{1}, folding({&x})}) {
      const Blocks blocks(folded(x, fold));
      partials = std::max(partials, 2 * static_cast<std::size_t>(blocks.count * blocks.channels));
    }
  return 2 * static_cast<std::size_t>(x.shape[1]) * sizeof(double) +
         partials * (x.dtype == DType::f64 ? sizeof(double) : sizeof(float));
}

/// Returns element c, or `otherwise` if v is undefined.
inline double value(const ConstView& v, std::int64_t c, double otherwise = 0) {
  if (!v.defined()) return otherwise;
  return visit_floating(v.dtype,
                        [&](auto zero) { return static_cast<double>(v.as<decltype(zero)>()[c * v.strides[0]]); });
}

inline void set(const View& v, std::int64_t c, double to) {
  if (!v.defined()) return;
  visit_floating(v.dtype, [&](auto zero) {
    using T = decltype(zero);
    v.as<T>()[c * v.strides[0]] = static_cast<T>(static_cast<compute_t<T>>(to));
  });
}

/// Returns {mean, scale, shift}, where bn(x) = (x - mean) scale + shift.
template <class Args>
std::array<double, 3> normalisation(const Args& a, std::int64_t c) {
  return {value(a.mean, c), value(a.weight, c, 1) / std::sqrt(value(a.var, c) + a.eps), value(a.bias, c)};
}

/// Calls f(first, count) for groups of channels whose sums fit local arrays, which do not alias.
template <class F>
void for_each_lane_group(std::int64_t channels, F&& f) {
  for (std::int64_t first = 0; first < channels; first += detail::chunk)
    f(first, std::min(detail::chunk, channels - first));
}

/// Calls f(i) for i in [0, count), in parallel. A call costs about as much as `work` elements.
template <class F>
void for_each_item(std::int64_t count, std::int64_t work, F&& f) {
  parallel_for(count, grain / std::max<std::int64_t>(work, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

void batch_norm_statistics(const BatchNormStatisticsArgs& a, Workspace ws);
void batch_norm_backward(const BatchNormBackwardArgs& a, const Plan&, Workspace ws);

}  // namespace bytetape::cpu
