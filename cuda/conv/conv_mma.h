#pragma once
#include "bytetape/cuda/conv/conv_tiles.h"

namespace bytetape::cuda {

/// A convolution of few channels on tensor cores, as a product of the weight and patches that are gathered from shared
/// memory. For 16-bit types, and for f32 if TF32 is allowed. Sums are f32.
struct MmaConv : ConvTiles {
  static constexpr int most_patch = 31;                             // elements of a patch
  static constexpr std::size_t group_bytes = 128;                   // outputs of a thread block at a pixel of y
  static constexpr std::size_t vector_bytes = 16;                   // outputs of a thread at a time
  static constexpr int forward_blocks = 4, weight_grad_blocks = 3;  // thread blocks on a multiprocessor at a time

  std::size_t element;  // bytes of an element
  int padded;           // 16 or 32: a patch, a one for the bias's gradient, and zeros
  int output_groups;    // thread blocks among which a tile's outputs are divided

  MmaConv(const ConvSizes& s, ConvMap map);
  constexpr int patch() const { return c * taps(); }
  /// The offset of element k of a patch in shared memory, from the patch's first element. Elements are in the order
  /// (kh, kw, c).
  constexpr int offset(int k) const {
    const int tap = k / c, y = tap / kw, x = tap - y * kw;
    return (y * dilation[0] * columns + x * dilation[1]) * c + k - tap * c;
  }
  /// Forward: the shared memory for the weight of a thread block's outputs and their bias as f32.
  std::size_t weight_bytes() const {
    return (static_cast<std::size_t>(padded) + sizeof(float) / element) * group_bytes;
  }
};

/// The value of Plan::algorithm for this algorithm.
inline constexpr std::int64_t conv_mma = 2;

/// Whether forward or weight_grad use this algorithm. `y` is y or its gradient.
bool is_mma(const ConvSizes& s, ConvMap map, const ConstView& y);

void mma_forward(const Conv2dArgs& args);
/// `ws` has at least MmaConv::sum_bytes() bytes.
void mma_weight_grad(const Conv2dWeightGradArgs& args, void* ws);

}  // namespace bytetape::cuda
