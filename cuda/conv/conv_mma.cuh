#pragma once
#include "bytetape/cuda/conv/conv_mma.h"
#include "bytetape/cuda/conv/conv_tiles.cuh"
#include "bytetape/cuda/matmul/mma.cuh"

/// Helpers for forward and weight_grad on tensor cores. The assignment of outputs to rows and columns of a product is
/// free. Here a thread's outputs of a pixel are 16 adjacent bytes.
namespace bytetape::cuda::conv_mma_detail {

inline constexpr int warp = MmaConv::warp, warps = MmaConv::warps, threads = MmaConv::threads;
inline constexpr unsigned whole_warp = 0xffffffff;
inline constexpr int rows = 16;  // rows of a product; pixels that a warp takes at a time

/// The outputs of a thread's vector, and of a thread block.
template <class T>
inline constexpr int vector = MmaConv::vector_bytes / sizeof(T);
template <class T>
inline constexpr int group = MmaConv::group_bytes / sizeof(T);
/// The number of steps of 8 words along a patch.
template <class T, int padded>
inline constexpr int steps = padded / (8 * per_word<T>);

template <class T>
__device__ void load_tile(const MmaConv& d, const Image<T>& x, const Tile& tile, T* values, Place* places) {
  for_each_seen<MmaConv::most_channels>(d, x, tile, [&](int i, const T(&v)[MmaConv::most_channels]) {
    for (int k = 0; k < MmaConv::most_channels; ++k)
      if (k < d.c) values[i * d.c + k] = factor(v[k]);
  });
  place_pixels(d, tile, d.c, places);
}

/// Calls f(T{}, padded), with `padded` a std::integral_constant.
template <class F>
void visit(const MmaConv& d, DType dtype, const F& f) {
  visit_tiled(dtype, [&](auto zero) {
    return d.padded == 16 ? f(zero, std::integral_constant<int, 16>()) : f(zero, std::integral_constant<int, 32>());
  });
}

}  // namespace bytetape::cuda::conv_mma_detail
