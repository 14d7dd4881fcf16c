#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/conv.h"
#include "bytetape/cuda/conv/conv_sizes.h"

namespace bytetape::cuda {

/// A convolution of few channels, cut into tiles of y's pixels. A thread block takes one tile at a time, and holds the
/// part of x that the tile depends on in shared memory, padded with zeros. So most memory traffic is y or its gradient,
/// moved once.
struct ConvTiles {
  static constexpr int warp = 32, threads = 128, warps = threads / warp;
  static constexpr int most_channels = 4, most_pixels = 768;  // limits of a tile
  static constexpr std::size_t most_shared = 48 << 10;        // bytes that every kernel may use by default
  static constexpr std::size_t place_bytes = 8;               // shared memory for a pixel's Place
  static constexpr std::size_t places = most_pixels * place_bytes;
  static constexpr std::int64_t processors = 132;  // of an H100; other numbers give correct results too

  int c, h, w, o, oh, ow, kh, kw, stride[2], padding[2], dilation[2];
  int tile_h = 0, tile_w = 0;      // pixels of y; 0 if no tile fits
  int rows = 0, columns = 0;       // pixels of x that a tile depends on
  int down = 0, across = 0;        // tiles of an image
  std::int64_t tiles = 0, blocks;  // weight_grad: number of thread blocks that share the tiles, equal on all devices
  std::size_t values = 0, shared;  // bytes of shared memory: for x, and in all

  constexpr int taps() const { return kh * kw; }
  /// weight_grad: the rows of a thread block's sums, of o floats each: (taps, c), then the bias's gradient.
  constexpr std::int64_t sum_rows() const { return std::int64_t{c} * taps() + 1; }
  std::size_t sum_bytes() const { return static_cast<std::size_t>(blocks * sum_rows() * o) * sizeof(float); }

 protected:
  explicit ConvTiles(const ConvSizes& s);
  /// Chooses the fastest tile for `at_once` concurrent thread blocks. Its pixels of x, `pixel` bytes each, must fit
  /// into `room` bytes.
  void choose_tile(std::int64_t n, std::size_t pixel, std::size_t room, std::int64_t at_once);
};

/// Whether forward and weight_grad can use tiles. `y` is y or its gradient.
bool has_few_channels(const ConvSizes& s, const ConstView& y);

/// Adds up the sums of d.blocks thread blocks to gw and gb.
void add_blocks(const ConvTiles& d, const float* sums, const Conv2dWeightGradArgs& args);

template <class I>
constexpr I divide_up(I a, I b) {
  return (a + b - 1) / b;
}

}  // namespace bytetape::cuda
