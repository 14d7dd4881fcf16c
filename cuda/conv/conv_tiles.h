#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/conv.h"
#include "bytetape/cuda/conv/conv_sizes.h"

namespace bytetape::cuda {

/// A convolution of few channels, cut into tiles of y's pixels: thread blocks take one at a time, and what it sees of x
/// lies in shared memory, zeros around it. So y or its gradient is nearly all that is moved, and moved once.
struct ConvTiles {
  static constexpr int warp = 32, threads = 128, warps = threads / warp;
  static constexpr int most_channels = 4, most_pixels = 768;  // of a tile
  static constexpr std::size_t most_shared = 48 << 10;        // what every kernel gets unasked
  static constexpr std::size_t place_bytes = 8;               // of shared memory for where a tile's pixel is
  static constexpr std::size_t places = most_pixels * place_bytes;
  static constexpr std::int64_t processors = 132;  // of an H100; any number is right

  int c, h, w, o, oh, ow, kh, kw, stride[2], padding[2], dilation[2];
  int tile_h = 0, tile_w = 0;      // pixels of y; 0 where no tile fits
  int rows = 0, columns = 0;       // pixels of x under a tile
  int down = 0, across = 0;        // tiles of an image
  std::int64_t tiles = 0, blocks;  // weight_grad: so many thread blocks share the tiles, whatever the device
  std::size_t values = 0, shared;  // bytes of shared memory, for x and in all

  constexpr int taps() const { return kh * kw; }
  /// weight_grad: rows of a thread block's sums, (taps, c), each of o floats; the last is the bias's.
  constexpr std::int64_t sum_rows() const { return std::int64_t{c} * taps() + 1; }
  std::size_t sum_bytes() const { return static_cast<std::size_t>(blocks * sum_rows() * o) * sizeof(float); }

 protected:
  explicit ConvTiles(const ConvSizes& s);
  /// Of tiles whose pixels of x, of `pixel` bytes, fit into `room`, those with which `at_once` thread blocks at a time
  /// get done first.
  void choose_tile(std::int64_t n, std::size_t pixel, std::size_t room, std::int64_t at_once);
};

/// Whether tiles are a way to make forward or weight_grad, `y` being y or its gradient.
bool has_few_channels(const ConvSizes& s, ConvMap map, const ConstView& y);

/// gw and gb from what d.blocks thread blocks summed.
void add_blocks(const ConvTiles& d, const float* sums, const Conv2dWeightGradArgs& args);

template <class I>
constexpr I divide_up(I a, I b) {
  return (a + b - 1) / b;
}

}  // namespace bytetape::cuda
