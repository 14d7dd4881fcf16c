#pragma once
#include <algorithm>
#include <cstdint>

#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/view.h"

/// Kernels process images (n, c, h, w) in strips of channels, which vectorise if channels are innermost.
namespace bytetape::cpu {

/// Channels per strip. Their values fit the L1 cache.
inline constexpr std::int64_t lanes = 64;

/// The channels of one pixel. `dense` makes them adjacent at compile time, so that loops over them vectorise.
template <class T, bool dense>
struct Channels {
  T* data;
  std::int64_t step;
  T& operator[](std::int64_t c) const { return data[dense ? c : c * step]; }
  void operator+=(std::int64_t elements) { data += elements; }
};

template <class T, bool dense>
struct Image {
  T* data;
  Strides strides;
  Channels<T, dense> at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return {data + n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3], strides[1]};
  }
};

template <class T, bool dense, class V>
Image<T, dense> image(const V& v) {
  return {v.template as<T>(), v.strides};
}

/// Calls f(n, h, c, count) for every row of v's pixels and every strip of channels, in parallel. A pixel costs `work`.
template <class F>
void for_each_strip(const ConstView& v, std::int64_t work, F&& f) {
  const std::int64_t channels = v.shape[1], height = v.shape[2], row = channels * v.shape[3] * work;
  parallel_for(v.shape[0] * height, grain / std::max<std::int64_t>(row, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t c = 0; c < channels; c += lanes) f(i / height, i % height, c, std::min(lanes, channels - c));
  });
}

inline bool adjacent(const ConstView& v) { return v.strides[1] == 1; }

}  // namespace bytetape::cpu
