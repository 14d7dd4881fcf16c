#pragma once
#include <limits>

#include "bytetape/core/kernels/epilogue.h"
#include "bytetape/core/size2.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// Geometry of a 2-d pooling window. For ops a stride of 0 means the kernel's size. Kernels get the actual stride.
struct Pool2dParams {
  Size2 kernel = 2, stride = 0, padding = 0;
};

/// The index of a maximum whose gradient is 0, because ReLU has cut it off. No window has so many elements.
template <class Index>
inline constexpr Index no_position = std::numeric_limits<Index>::max();

/// x (n, c, h, w), y (n, c, h', w'). indices (u8 or i32) have y's shape, and are row-major positions in the window, or
/// no_position.
struct PoolKernels {
  static constexpr Epilogues epilogues{Activation::relu};

  // y = activation(maximum); NaN is propagated; indices may be undefined
  void (*max_pool2d)(const ConstView& x, const Pool2dParams& p, Activation activation, const View& y,
                     const View& indices);
  void (*max_pool2d_backward)(const ConstView& gy, const ConstView& indices, const Pool2dParams& p, const View& gx);
  // y = x[indices], or 0 for no_position
  void (*max_pool2d_gather)(const ConstView& x, const ConstView& indices, const Pool2dParams& p, const View& y);
  // padding counts as zeros, or not at all
  void (*avg_pool2d)(const ConstView& x, const Pool2dParams& p, bool count_include_pad, const View& y);
  void (*avg_pool2d_backward)(const ConstView& gy, const Pool2dParams& p, bool count_include_pad, const View& gx);
  // output i of m is the mean of the inputs from floor(i n / m) to ceil((i + 1) n / m), exclusive
  void (*adaptive_avg_pool2d)(const ConstView& x, const View& y);
  void (*adaptive_avg_pool2d_backward)(const ConstView& gy, const View& gx);
};

}  // namespace bytetape
