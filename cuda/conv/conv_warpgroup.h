#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/conv.h"
#include "bytetape/cuda/conv/conv_sizes.h"

namespace bytetape::cuda {

/// The weight's gradient of a 3x3 convolution of many channels, with Hopper's warpgroup instructions; f32 is rounded to
/// TF32. A thread block sums all taps of 64 outputs and `channels` channels, over a share of the tiles of y's pixels.
/// The sums of the shares are added in order. The bits depend on the sizes alone.
struct WarpgroupConv {
  static constexpr int taps = 9, outputs = 64;             ///< in a thread block
  static constexpr int images = 8, rows = 4, columns = 4;  ///< size of a tile
  static constexpr int threads = 3 * 128;                  ///< one warpgroup for each row of taps
  static constexpr int processors = 132;                   ///< of an H100; other numbers give correct results too

  int n, c, h, w, o, oh, ow, pad_h, pad_w;
  int channels;                    ///< channels of a thread block: 64 or 32
  int image_tiles, tiles, shares;  ///< tiles of eight images; tiles in all; thread blocks that share the tiles

  explicit WarpgroupConv(const ConvSizes& s);
  /// The bytes of the sums of all shares, each (o, taps, c) in f32.
  std::size_t sum_bytes() const {
    return static_cast<std::size_t>(shares) * static_cast<std::size_t>(o * taps) * static_cast<std::size_t>(c) *
           sizeof(float);
  }
};

/// The value of Plan::algorithm for this algorithm.
inline constexpr std::int64_t conv_warpgroup = 3;

/// Whether a Hopper GPU uses this algorithm. Other GPUs use cuDNN.
bool is_warpgroup(const Conv2dWeightGradArgs& args);

/// `ws` has at least WarpgroupConv::sum_bytes() bytes.
void warpgroup_weight_grad(const Conv2dWeightGradArgs& args, void* ws);

}  // namespace bytetape::cuda
