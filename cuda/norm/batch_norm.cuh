#pragma once
// Helpers for the kernels of batch normalisation. If channels are adjacent in memory (channels-last images, rows of
// features), the x dim of a block's threads runs along the channels, else along the pixels. Each thread keeps `lanes`
// channels and walks pixels.
#include <algorithm>
#include <array>
#include <cstring>

#include "bytetape/core/images/resample.h"
#include "bytetape/core/kernels/batch_norm.h"
#include "bytetape/cuda/index.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {

using resample::quotient;

/// The pixels (n, h, w) of K images of one shape, in the memory order of the first image.
template <std::size_t K>
struct Pixels {
  static constexpr bool are_even = false;
  std::int64_t count, channels, channel_strides[K];
  Offsets<K, 3> dims;

  explicit Pixels(const std::array<const ConstView*, K>& images)
      : count(1), channels(images[0]->shape[1]), dims(walk_over(images)) {
    for (int d = 0; d < dims.rank; ++d) count *= dims.sizes[d];
    for (std::size_t k = 0; k < K; ++k) channel_strides[k] = images[k]->strides[1];
  }
  bool channels_adjacent() const { return channels > 1 && channel_strides[0] == 1; }
  /// Whether each pixel's channels can be accessed `lanes` at a time: adjacent and aligned.
  bool fits(int lanes) const {
    bool fits = channels % lanes == 0;
    for (std::size_t k = 0; k < K; ++k) {
      fits = fits && channel_strides[k] == 1;
      for (int d = 0; d < dims.rank; ++d) fits = fits && dims.strides[k][d] % lanes == 0;
    }
    return fits;
  }
  /// Finds the offsets of channel c of pixel p.
  __device__ void find(std::int64_t p, std::int64_t c, std::int64_t (&at)[K]) const {
    for (std::size_t k = 0; k < K; ++k) at[k] = c * channel_strides[k];
    dims.add(p, at);
  }

 private:
  static Walk<K> walk_over(const std::array<const ConstView*, K>& images) {
    std::array<Strides, K> steps;
    std::array<const Strides*, K> operands;
    for (std::size_t k = 0; k < K; ++k) {
      const Strides& s = images[k]->strides;
      steps[k] = {s[0], s[2], s[3]};
      operands[k] = &steps[k];
    }
    const Shape& shape = images[0]->shape;
    Walk<K> walk({shape[0], shape[2], shape[3]}, operands);
    walk.complete();
    return walk;
  }
};

/// Pixels that are evenly spaced in each image, with adjacent channels. Finding one takes few registers.
template <std::size_t K>
struct PixelRows {
  static constexpr bool are_even = true;
  std::int64_t count, channels, strides[K];

  explicit PixelRows(const Pixels<K>& pixels) : count(pixels.count), channels(pixels.channels) {
    for (std::size_t k = 0; k < K; ++k) strides[k] = pixels.dims.strides[k][0];
  }
  __device__ void find(std::int64_t p, std::int64_t c, std::int64_t (&at)[K]) const {
    for (std::size_t k = 0; k < K; ++k) at[k] = p * strides[k] + c;
  }
};

/// Calls f(lanes, pixels) with the number of channels that a thread handles at once, 16 bytes of them or one, and with
/// PixelRows or Pixels.
template <class T, std::size_t K, class F>
void with_lanes(const Pixels<K>& pixels, const std::array<const ConstView*, K>& images, F&& f) {
  constexpr std::integral_constant<int, 16 / sizeof(T)> most;
  bool fits = pixels.fits(most);
  for (const ConstView* image : images) fits = fits && is_aligned(*image);
  if (fits && pixels.dims.rank <= 1)
    f(most, PixelRows<K>(pixels));
  else if (fits)
    f(most, pixels);
  else
    f(std::integral_constant<int, 1>(), pixels);
}

/// Makes the compiler keep 16-bit numbers packed until they are used. Otherwise it unpacks each into a register of its
/// own right after the load, and waits for this load before it starts the next.
template <class T, int lanes>
__device__ void keep_packed(Packed<T, lanes>& v) {
  if constexpr (sizeof(T) == 2 && lanes == 8) {
    uint4 words;
    memcpy(&words, &v, sizeof(words));
    asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w));
    memcpy(&v, &words, sizeof(words));
  }
}
template <class T, int lanes, int n>
__device__ void keep_packed(Packed<T, lanes> (&all)[n]) {
#pragma unroll
  for (int u = 0; u < n; ++u) keep_packed(all[u]);
}

/// The arrangement of blocks over channels (x) and pixels (y). Both dims of a block are powers of two.
struct Tiles {
  unsigned count;  // blocks side by side that cover the channels
  dim3 threads;

  template <std::size_t K>
  Tiles(const Pixels<K>& pixels, int lanes, unsigned block = block_size, unsigned widest = 32) : threads(1, block) {
    const std::int64_t vectors = (pixels.channels + lanes - 1) / lanes;
    if (pixels.channels_adjacent())
      while (threads.x < widest && threads.x < vectors) threads.x *= 2;
    threads.y = block / threads.x;
    count = static_cast<unsigned>((vectors + threads.x - 1) / threads.x);
  }
};

/// The first channel of this thread.
template <int lanes>
__device__ std::int64_t first_channel() {
  return (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * lanes;
}

/// A number for each channel, in T or the type that T accumulates in. `data` is null if none are given.
template <class T>
struct PerChannel {
  using C = compute_t<T>;
  const void* data;
  std::int64_t stride;
  bool is_wide, is_packed;  // 16 bytes of wide numbers can be loaded at once

  explicit PerChannel(const ConstView& v)
      : data(v.data()),
        stride(data ? v.strides[0] : 0),
        is_wide(v.dtype == dtype_of<C>),
        is_packed(is_wide && stride == 1 && is_aligned(v)) {}
  __device__ C at(std::int64_t c, C otherwise) const {
    if (!data) return otherwise;
    return is_wide ? static_cast<const C*>(data)[c * stride] : widened(static_cast<const T*>(data)[c * stride]);
  }
  /// Gets the numbers of channels c, c + 1, ...
  template <int lanes>
  __device__ void get(std::int64_t c, C otherwise, C (&to)[lanes]) const {
    constexpr int step = 16 / sizeof(C);
    if constexpr (lanes % step == 0)
      if (data && is_packed) {
        for (int k = 0; k < lanes; k += step) {
          const auto packed = load<step>(static_cast<const C*>(data) + c + k);
          for (int i = 0; i < step; ++i) to[k + i] = packed.values[i];
        }
        return;
      }
    for (int k = 0; k < lanes; ++k) to[k] = at(c + k, otherwise);
  }
};

/// A result for each channel. Does nothing if `data` is null.
template <class T>
struct ChannelResult {
  using C = compute_t<T>;
  void* data;
  std::int64_t stride;
  bool is_wide;

  explicit ChannelResult(const View& v)
      : data(v.data()), stride(data ? v.strides[0] : 0), is_wide(v.dtype == dtype_of<C>) {}
  __device__ void set(std::int64_t c, double v) const {
    if (!data) return;
    if (is_wide)
      static_cast<C*>(data)[c * stride] = static_cast<C>(v);
    else
      static_cast<T*>(data)[c * stride] = narrowed<T>(static_cast<C>(v));
  }
};

/// (x - mean) scale + shift. All kernels compute the same bits.
template <class T>
struct Normalise {
  using C = compute_t<T>;
  PerChannel<T> weight, bias, mean, var;
  C eps;

  template <int lanes>
  struct Numbers {
    C mean[lanes], scale[lanes], shift[lanes];
    __device__ C operator()(int k, C x) const { return ::fma(x - mean[k], scale[k], shift[k]); }
  };
  template <class Args>
  explicit Normalise(const Args& a)
      : weight(a.weight), bias(a.bias), mean(a.mean), var(a.var), eps(static_cast<C>(a.eps)) {}
  template <int lanes>
  __device__ Numbers<lanes> of(std::int64_t c) const {
    Numbers<lanes> n;
    C vars[lanes];
    mean.template get<lanes>(c, 0, n.mean);
    weight.template get<lanes>(c, 1, n.scale);
    bias.template get<lanes>(c, 0, n.shift);
    var.template get<lanes>(c, 1, vars);
    for (int k = 0; k < lanes; ++k) n.scale[k] = scale(n.scale[k], vars[k]);
    return n;
  }
  __device__ C scale(C of_weight, C of_var) const { return of_weight * ::rsqrt(of_var + eps); }
};

}  // namespace bytetape::cuda
