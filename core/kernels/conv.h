#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/size2.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// Geometry of a 2-d convolution.
struct Conv2dParams {
  Size2 stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  friend bool operator==(const Conv2dParams&, const Conv2dParams&) = default;
};

/// x (n, c, h, w), weight (o, c / groups, kh, kw), bias (o) or undefined, y (n, o, h', w'). x, y and their gradients
/// are dense, channels-last or row-major; weight, bias and theirs are row-major.
struct ConvKernels {
  std::size_t (*conv2d_workspace)(const ConstView& x, const ConstView& weight, const ConstView& bias, const View& y,
                                  const Conv2dParams& p);
  void (*conv2d)(const ConstView& x, const ConstView& weight, const ConstView& bias, const View& y,
                 const Conv2dParams& p, Workspace ws);
  std::size_t (*conv2d_input_grad_workspace)(const ConstView& gy, const ConstView& weight, const View& gx,
                                             const Conv2dParams& p);
  void (*conv2d_input_grad)(const ConstView& gy, const ConstView& weight, const View& gx, const Conv2dParams& p,
                            Workspace ws);
  // gb may be undefined
  std::size_t (*conv2d_weight_grad_workspace)(const ConstView& x, const ConstView& gy, const View& gw, const View& gb,
                                              const Conv2dParams& p);
  void (*conv2d_weight_grad)(const ConstView& x, const ConstView& gy, const View& gw, const View& gb,
                             const Conv2dParams& p, Workspace ws);
};

}  // namespace bytetape
