#pragma once
#include "bytetape/cuda/conv/conv_tiles.h"

namespace bytetape::cuda {

/// A convolution of few channels as a product of patches, gathered from shared memory, and the weight, on tensor cores:
/// of 16-bit types, and of f32 where TF32 is allowed. Sums are f32.
struct MmaConv : ConvTiles {
  static constexpr int most_patch = 31;                             // elements
  static constexpr std::size_t group_bytes = 128;                   // of a pixel of y: the outputs of a thread block
  static constexpr std::size_t vector_bytes = 16;                   // of them, a thread's at a time
  static constexpr int forward_blocks = 4, weight_grad_blocks = 3;  // that a processor holds at a time, by registers

  std::size_t element;  // bytes
  int padded;           // elements of a patch, a one behind them that makes the bias's gradient, and zeros: 16 or 32
  int output_groups;    // thread blocks that share the outputs of a tile

  MmaConv(const ConvSizes& s, ConvMap map);
  constexpr int patch() const { return c * taps(); }
  /// Where element k of a patch, in the order (kh, kw, c), is in shared memory from the patch's first.
  constexpr int offset(int k) const {
    const int tap = k / c, y = tap / kw, x = tap - y * kw;
    return (y * dilation[0] * columns + x * dilation[1]) * c + k - tap * c;
  }
  /// Forward: of shared memory, for the weight of a thread block's outputs and their bias as f32.
  std::size_t weight_bytes() const {
    return (static_cast<std::size_t>(padded) + sizeof(float) / element) * group_bytes;
  }
};

/// Plan::algorithm of what is made so.
inline constexpr std::int64_t conv_mma = 2;

/// Whether forward or weight_grad are made so, `y` being y or its gradient.
bool is_mma(const ConvSizes& s, ConvMap map, const ConstView& y);

void mma_forward(const Conv2dArgs& args);
/// `ws` has MmaConv::sum_bytes().
void mma_weight_grad(const Conv2dWeightGradArgs& args, void* ws);

}  // namespace bytetape::cuda
