#pragma once
#include "bytetape/cuda/conv/conv_tiles.h"

/// Helpers for kernels over tiles of y's pixels.
namespace bytetape::cuda {

/// The place of a tile's pixel: x is the offset of its patch in shared memory, y its number in y from the tile's first
/// pixel.
struct alignas(ConvTiles::place_bytes) Place {
  std::uint32_t x, y;
};

/// Calls f(T{}) for the dtypes with kernels over tiles: all but f64.
template <class F>
void visit_tiled(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(BFloat16{});
    default:
      return f(Half{});
  }
}

/// The layout of x in memory.
template <class T>
struct Image {
  const T* data;
  std::int64_t step;
  int channel_step, row_step, column_step;

  explicit Image(const ConstView& x)
      : data(x.as<T>()),
        step(x.strides[0]),
        channel_step(static_cast<int>(x.strides[1])),
        row_step(static_cast<int>(x.strides[2])),
        column_step(static_cast<int>(x.strides[3])) {}
};

/// The layout of the weight or its gradient in memory.
template <class T>
struct Weight {
  T* data;
  int output_step, channel_step, row_step, column_step;

  explicit Weight(const ConstView& w)
      : data(static_cast<T*>(const_cast<void*>(w.data()))),
        output_step(static_cast<int>(w.strides[0])),
        channel_step(static_cast<int>(w.strides[1])),
        row_step(static_cast<int>(w.strides[2])),
        column_step(static_cast<int>(w.strides[3])) {}
  __device__ T& at(const ConvTiles& d, int output, int channel, int tap) const {
    const int y = tap / d.kw, x = tap - y * d.kw;
    return data[output * output_step + channel * channel_step + y * row_step + x * column_step];
  }
};

/// A rectangle of pixels of an image of y.
struct Tile {
  int n, row, column, width, count;

  __device__ Tile(const ConvTiles& d, int i) {
    const int band = i / d.across;
    n = band / d.down;
    row = (band - n * d.down) * d.tile_h;
    column = (i - band * d.across) * d.tile_w;
    width = min(d.tile_w, d.ow - column);
    count = width * min(d.tile_h, d.oh - row);
  }
  /// The number of the tile's first pixel in y.
  __device__ std::uint32_t first(const ConvTiles& d) const {
    return (static_cast<std::uint32_t>(n) * d.oh + row) * d.ow + column;
  }
};

/// Calls f(i, channels) for each pixel i of x that a tile depends on. Channels outside x are zero. A thread loads
/// several pixels at once.
template <int channels, class T, class F>
__device__ void for_each_seen(const ConvTiles& d, const Image<T>& x, const Tile& tile, const F& f) {
  constexpr int at_once = 4, threads = ConvTiles::threads;
  const int row = tile.row * d.stride[0] - d.padding[0], column = tile.column * d.stride[1] - d.padding[1];
  const int end = d.rows * d.columns;
  const T* image = x.data + tile.n * x.step;
  for (int first = threadIdx.x; first < end; first += at_once * threads) {
    T v[at_once][ConvTiles::most_channels] = {};
#pragma unroll
    for (int p = 0; p < at_once; ++p) {
      const int i = first + p * threads, down = i / d.columns, y = row + down, z = column + i - down * d.columns;
      if (i >= end || y < 0 || y >= d.h || z < 0 || z >= d.w) continue;
      const T* from = image + y * x.row_step + z * x.column_step;
#pragma unroll
      for (int k = 0; k < channels; ++k)
        if (k < d.c) v[p][k] = from[k * x.channel_step];
    }
#pragma unroll
    for (int p = 0; p < at_once; ++p)
      if (first + p * threads < end) f(first + p * threads, v[p]);
  }
}

/// Computes the places of a tile's pixels. A pixel of x takes `width` elements of shared memory.
__device__ inline void place_pixels(const ConvTiles& d, const Tile& tile, int width, Place* places) {
  for (int i = threadIdx.x; i < tile.count; i += ConvTiles::threads) {
    const int y = i / tile.width, z = i - y * tile.width;
    places[i] = {static_cast<std::uint32_t>((y * d.stride[0] * d.columns + z * d.stride[1]) * width),
                 static_cast<std::uint32_t>(y * d.ow + z)};
  }
}

}  // namespace bytetape::cuda
