#pragma once
#include "bytetape/cuda/conv/conv_tiles.h"

namespace bytetape::cuda {

/// A convolution of few channels straight from its definition, on CUDA cores: x lies in shared memory as f32. True f32
/// throughout.
struct DirectConv : ConvTiles {
  static constexpr int quad = 4;
  static constexpr int forward_quads = 2, forward_pixels = 8;  // of a thread at a time

  int channels;        // computed with: of two, one more that is zero
  int lanes;           // adjacent threads on one pixel, each on its quads of outputs
  int output_groups;   // thread blocks that share the outputs of a tile
  int tap_groups = 1;  // weight_grad: thread blocks that share the taps

  DirectConv(const ConvSizes& s, ConvMap map);
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
};

/// Plan::algorithm of what is made so.
inline constexpr std::int64_t conv_direct = 1;

/// Whether forward or weight_grad are made so, `y` being y or its gradient.
bool is_direct(const ConvSizes& s, ConvMap map, const ConstView& y);

void direct_forward(const Conv2dArgs& args);
/// `ws` has DirectConv::sum_bytes().
void direct_weight_grad(const Conv2dWeightGradArgs& args, void* ws);

}  // namespace bytetape::cuda
