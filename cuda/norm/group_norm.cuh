#pragma once
// Group normalisation. A block takes a group of an image, and walks its elements in vectors of `lanes`: along the
// pixels of a channel, or in channels-last images along the channels of a pixel.
#include "bytetape/core/kernels/group_norm.h"
#include "bytetape/cuda/norm/batch_norm.cuh"
#include "bytetape/cuda/norm/layer_norm.cuh"

namespace bytetape::cuda {

/// The place of a vector in a group: its offset from the group's first element, and its first channel within the group.
struct Neighbours {
  std::int64_t at, channel;
};

/// Dense images of shape (n, c, h, w), with n * groups groups.
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
  /// Whether vectors of `lanes` elements stay within a channel, or within a pixel's channels of the group.
  bool fits(int lanes) const { return (channels_last ? of_group : pixels) % lanes == 0; }

  /// The first channel of group i, counted over all images, and the group's first element.
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
  /// The channel of element k of the vector, within the group.
  __device__ static std::int64_t channel(const Neighbours& of, int k) {
    return channels_last ? of.channel + k : of.channel;
  }
};

/// Calls f(lanes, groups) for x and images of its layout. `lanes` is 16 bytes of elements if all images allow that,
/// else 1.
template <class T, class F>
void with_groups(const ConstView& x, std::int64_t count, std::initializer_list<const ConstView*> images, F&& f) {
  constexpr int most = 16 / sizeof(T);
  const auto with = [&](const auto& groups) {
    if (groups.fits(most) && are_aligned(images))
      f(std::integral_constant<int, most>(), groups);
    else
      f(std::integral_constant<int, 1>(), groups);
  };
  if (x.is_contiguous())
    with(Groups<false>(x, count));
  else
    with(Groups<true>(x, count));
}

/// The number of threads of a block for groups of `vectors` vectors: a power of two, at least a warp.
inline unsigned group_threads(std::int64_t vectors) {
  unsigned threads = 32;
  while (threads < wide_block && threads * 4 < vectors) threads *= 2;
  return threads;
}

/// The number of blocks. Each takes one or more groups.
inline unsigned group_blocks(std::int64_t groups) {
  return static_cast<unsigned>(std::min(groups, std::int64_t{1} << 20));
}

void group_norm_backward(const GroupNormBackwardArgs& args, const Plan& plan, Workspace ws);

}  // namespace bytetape::cuda
