#pragma once
#include <algorithm>
#include <cstdint>

#include "bytetape/core/conv_sizes.h"

namespace bytetape::cpu {

/// Calls f(row of the patch matrix, offset within the patch, input row, input column) for every tap of every output
/// pixel. Row and column are -1 for taps in the padding.
template <class F>
void for_each_tap(const ConvSizes& s, F&& f) {
  for (std::int64_t oy = 0; oy < s.oh; ++oy)
    for (std::int64_t ox = 0; ox < s.ow; ++ox)
      for (std::int64_t ky = 0; ky < s.kh; ++ky)
        for (std::int64_t kx = 0; kx < s.kw; ++kx) {
          const std::int64_t iy = oy * s.p.stride[0] - s.p.padding[0] + ky * s.p.dilation[0];
          const std::int64_t ix = ox * s.p.stride[1] - s.p.padding[1] + kx * s.p.dilation[1];
          const bool inside = iy >= 0 && iy < s.h && ix >= 0 && ix < s.w;
          f(oy * s.ow + ox, (ky * s.kw + kx) * s.group_in(), inside ? iy : -1, inside ? ix : -1);
        }
}

/// Copies the patches of one group of an image into a (pixels, patch) matrix. `x` is the group's first channel, with
/// x's strides.
template <class T, class C>
void im2col(const ConvSizes& s, const T* x, const Strides& strides, C* patches) {
  const std::int64_t channels = s.group_in(), step = strides[1], patch = s.patch();
  for_each_tap(s, [&](std::int64_t row, std::int64_t at, std::int64_t iy, std::int64_t ix) {
    C* to = patches + row * patch + at;
    if (iy < 0) {
      std::fill_n(to, channels, C{0});
      return;
    }
    const T* from = x + iy * strides[2] + ix * strides[3];
    if (step == 1)  // lets the compiler vectorise
      for (std::int64_t i = 0; i < channels; ++i) to[i] = static_cast<C>(from[i]);
    else
      for (std::int64_t i = 0; i < channels; ++i) to[i] = static_cast<C>(from[i * step]);
  });
}

/// The inverse of im2col(): adds the patches of group `group` into a dense (h, w, c) image.
template <class C>
void col2im(const ConvSizes& s, const C* patches, std::int64_t group, C* image) {
  const std::int64_t channels = s.group_in(), patch = s.patch();
  for_each_tap(s, [&](std::int64_t row, std::int64_t at, std::int64_t iy, std::int64_t ix) {
    if (iy < 0) return;
    const C* from = patches + row * patch + at;
    C* to = image + (iy * s.w + ix) * s.c + group * channels;
    for (std::int64_t i = 0; i < channels; ++i) to[i] += from[i];
  });
}

}  // namespace bytetape::cpu
