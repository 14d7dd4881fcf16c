#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/conv.h"
#include "bytetape/cuda/conv/conv_sizes.h"

namespace bytetape::cuda {

/// The weight's gradient of a 3x3 convolution of many channels by Hopper's warpgroups, of f32 as TF32. A thread block
/// sums all taps of 64 outputs and `channels` channels over a share of the tiles of y's pixels; the shares' sums are
/// added in order. The bits depend on nothing but the sizes.
struct WarpgroupConv {
  static constexpr int taps = 9, outputs = 64;             ///< of a thread block
  static constexpr int images = 8, rows = 4, columns = 4;  ///< of a tile
  static constexpr int threads = 3 * 128;                  ///< a warpgroup for each row of taps
  static constexpr int processors = 132;                   ///< of an H100; any number is right

  int n, c, h, w, o, oh, ow, pad_h, pad_w;
  int channels;                    ///< of a thread block: 64 or 32
  int image_tiles, tiles, shares;  ///< of eight images, in all, and thread blocks that share them

  explicit WarpgroupConv(const ConvSizes& s);
  /// Of all shares' sums, each (o, taps, c) in f32.
  std::size_t sum_bytes() const {
    return static_cast<std::size_t>(shares) * static_cast<std::size_t>(o * taps) * static_cast<std::size_t>(c) *
           sizeof(float);
  }
};

/// Plan::algorithm of what is made so.
inline constexpr std::int64_t conv_warpgroup = 3;

/// Whether a Hopper GPU makes the gradient so. Other GPUs take cuDNN.
bool is_warpgroup(const Conv2dWeightGradArgs& args);

/// `ws` has WarpgroupConv::sum_bytes().
void warpgroup_weight_grad(const Conv2dWeightGradArgs& args, void* ws);

}  // namespace bytetape::cuda
