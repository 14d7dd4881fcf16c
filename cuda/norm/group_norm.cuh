#pragma once
// Group normalisation: a block takes a group of an image, whose elements it walks in vectors of `lanes`, along the
// pixels of a channel or, of channels-last images, along the channels of a pixel.
#include "bytetape/core/kernels/group_norm.h"
#include "bytetape/cuda/norm/batch_norm.cuh"
#include "bytetape/cuda/norm/layer_norm.cuh"

namespace bytetape::cuda {

/// Some neighbours in a group: how far from its first element, and the first one's channel in it.
struct Neighbours {
  std::int64_t at, channel;
};

/// Dense images (n, c, h, w) of n * groups groups.
template <bool channels_last>
struct Groups {
  std::int64_t count, groups, channels, of_group, pixels;

  Groups(const ConstView& x, std::int64_t groups)
      : count(x.shape[0] * groups),
        groups(groups),
        channels(x.shape[1]),
        of_group(x.shape[1] / groups),
        pixels(x.shape[2] * x.shape[3]) {}

  __host__ __device__ std::int64_t elements() const { return of_group * pixels; }
  /// True where no vector of so many leaves a channel, or a pixel's channels of the group.
  bool fits(int lanes) const { return (channels_last ? of_group : pixels) % lanes == 0; }

  /// The first channel of group i, counted over all images, and where the group begins.
  __device__ std::int64_t first_channel(std::int64_t i) const { return (i - quotient(i, groups) * groups) * of_group; }
  __device__ std::int64_t begin(std::int64_t i) const {
    if constexpr (channels_last) return quotient(i, groups) * channels * pixels + first_channel(i);
    return i * elements();
  }
  template <int lanes>
  __device__ Neighbours neighbours(std::int64_t vector) const {
    if constexpr (channels_last) {
      const std::int64_t across = of_group / lanes, pixel = quotient(vector, across),
                         channel = (vector - pixel * across) * lanes;
      return {pixel * channels + channel, channel};
    }
    return {vector * lanes, quotient(vector * lanes, pixels)};
  }
  /// The channel in the group of neighbour k.
  __device__ static std::int64_t channel(const Neighbours& of, int k) {
    return channels_last ? of.channel + k : of.channel;
  }
};

/// f(lanes, groups) for x and images like it; lanes is 16 bytes' worth where all can be taken so, else 1.
template <class T, class F>
void with_groups(const ConstView& x, std::int64_t count, std::initializer_list<const ConstView*> images, F&& f) {
  constexpr int most = 16 / sizeof(T);
  const auto with = [&](const auto& groups) {
    if (groups.fits(most) && aligned<T>(images))
      f(std::integral_constant<int, most>(), groups);
    else
      f(std::integral_constant<int, 1>(), groups);
  };
  if (x.is_contiguous())
    with(Groups<false>(x, count));
  else
    with(Groups<true>(x, count));
}

/// Threads of a block for groups of so many vectors: whole warps, a power of two.
inline unsigned group_threads(std::int64_t vectors) {
  unsigned threads = 32;
  while (threads < wide_block && threads * 4 < vectors) threads *= 2;
  return threads;
}

/// Blocks, of which each takes one group or more.
inline unsigned group_blocks(std::int64_t groups) {
  return static_cast<unsigned>(std::min(groups, std::int64_t{1} << 20));
}

void group_norm_backward(const GroupNormBackwardArgs& args, const Plan& plan, Workspace ws);

}  // namespace bytetape::cuda
