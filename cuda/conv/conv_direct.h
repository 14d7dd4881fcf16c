#pragma once
#include "bytetape/cuda/conv/conv_tiles.h"

namespace bytetape::cuda {

/// A direct convolution of few channels on CUDA cores. x is in shared memory as f32. Computes in f32 without TF32.
struct DirectConv : ConvTiles {
  static constexpr int quad = 4;
  static constexpr int forward_quads = 2, forward_pixels = 8;  // that a thread computes at a time

  int channels;        // computed channels: 2 are padded to 3 with zeros
  int lanes;           // adjacent threads on one pixel, each with its quads of outputs
  int output_groups;   // thread blocks among which a tile's outputs are divided
  int tap_groups = 1;  // weight_grad: thread blocks among which the taps are divided

  DirectConv(const ConvSizes& s, ConvMap map);
  /// The floats of a pixel of x in shared memory.
  static constexpr int width(int channels) { return channels == 1 ? 1 : quad; }
  /// weight_grad: the taps of a thread, as many as its registers hold sums for.
  static constexpr int taps_a_thread(int channels) { return channels == 4 ? 5 : 9; }
  /// The thread blocks on a multiprocessor at a time, limited by registers.
  static constexpr int forward_blocks(int channels) { return channels == 1 ? 4 : 3; }
  static constexpr int weight_grad_blocks(int channels) { return channels == 1 ? 6 : 3; }
  /// Forward: the distance in floats from a tap's weights to the next tap's. It avoids bank conflicts of writes.
  constexpr int weight_step() const { return (forward_quads * lanes + 1) * quad; }
  constexpr std::size_t weight_bytes() const {
    return static_cast<std::size_t>(channels * taps() + 1) * static_cast<std::size_t>(weight_step()) * sizeof(float);
  }
};

/// The value of Plan::algorithm for this algorithm.
inline constexpr std::int64_t conv_direct = 1;

/// Whether forward or weight_grad use this algorithm. `y` is y or its gradient.
bool is_direct(const ConvSizes& s, ConvMap map, const ConstView& y);

void direct_forward(const Conv2dArgs& args);
/// `ws` has at least DirectConv::sum_bytes() bytes.
void direct_weight_grad(const Conv2dWeightGradArgs& args, void* ws);

}  // namespace bytetape::cuda
