#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/conv.h"
#include "bytetape/cuda/conv_sizes.h"

namespace bytetape::cuda {

/// A convolution of few channels, as those of the first layer of an image network, straight from its definition: y or
/// its gradient is nearly all that is moved, and moved once. Thread blocks take tiles of y's pixels; what a tile sees
/// of x lies in shared memory as f32, zeros around it. True f32 throughout.
struct DirectConv {
  static constexpr int warp = 32, threads = 128, quad = 4;
  static constexpr int forward_quads = 2, forward_pixels = 8;  // of a thread at a time
  static constexpr int pixel_bytes = 8;                        // of shared memory for where a tile's pixel is

  int c, h, w, o, oh, ow, kh, kw, stride[2], padding[2], dilation[2];
  int channels;                // computed with: of two, one more that is zero
  int lanes;                   // adjacent threads on one pixel, each on its quads of outputs
  int output_groups;           // thread blocks that share the outputs of a tile
  int tap_groups = 1;          // weight_grad: thread blocks that share the taps
  int tile_h = 0, tile_w = 0;  // pixels of y; 0 where no tile fits
  int rows, columns;           // pixels of x under a tile
  int down, across;            // tiles of an image
  std::int64_t tiles, blocks;  // weight_grad: so many thread blocks share the tiles, whatever the device
  std::size_t values, shared;  // bytes of shared memory, for x and in all

  DirectConv(const ConvSizes& s, ConvMap map);
  constexpr int taps() const { return kh * kw; }
  /// Floats of a pixel of x in shared memory.
  static constexpr int width(int channels) { return channels == 1 ? 1 : quad; }
  /// weight_grad: taps of a thread, as many as its registers hold sums for.
  static constexpr int taps_a_thread(int channels) { return channels == 4 ? 5 : 9; }
  /// Thread blocks that a processor holds at a time, by registers.
  static constexpr int forward_blocks(int channels) { return channels == 1 ? 4 : 3; }
  static constexpr int weight_grad_blocks(int channels) { return channels == 1 ? 6 : 3; }
  /// Forward: floats from a tap's weights to the next tap's, which keeps writing them out of one bank.
  constexpr int weight_step() const { return (forward_quads * lanes + 1) * quad; }
  constexpr std::size_t weight_bytes() const {
    return static_cast<std::size_t>(channels * taps() + 1) * static_cast<std::size_t>(weight_step()) * sizeof(float);
  }
  /// weight_grad: rows of a thread block's sums, each of o floats; the last is the bias's.
  constexpr std::int64_t sum_rows() const { return std::int64_t{c} * taps() + 1; }
  std::size_t sum_bytes() const { return static_cast<std::size_t>(blocks * sum_rows() * o) * sizeof(float); }

 private:
  void choose_tile(std::int64_t n, std::size_t room, std::int64_t at_once);
};

/// Plan::algorithm of what is made so.
inline constexpr std::int64_t conv_direct = 1;

/// Whether forward or weight_grad are made so, `y` being y or its gradient.
bool is_direct(const ConvSizes& s, ConvMap map, const ConstView& y);

void direct_forward(const Conv2dArgs& args);
/// `ws` has DirectConv::sum_bytes().
void direct_weight_grad(const Conv2dWeightGradArgs& args, void* ws);

}  // namespace bytetape::cuda
