#pragma once
#include <cstdint>

#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// 2-d convolution: x (n, c, h, w), weight (o, c / groups, kh, kw), bias (o) or undefined -> (n, o, h', w'),
/// channels-last.
/// h' = floor((h + 2 padding - dilation (kh - 1) - 1) / stride) + 1 (torch.nn.functional.conv2d). The activation is
/// applied after the bias. Differentiable to any order.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws ValueError if a parameter is out of range, or the activation is not none or relu.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv2dParams& params = {},
              Activation activation = Activation::none);

/// Geometry of a 1-d convolution.
struct Conv1dParams {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
/// 1-d convolution: x (n, c, l), weight (o, c / groups, k), bias (o) or undefined -> (n, o, l')
/// (torch.nn.functional.conv1d). This is conv2d of images of one row: messages and kernels are its own, and channels
/// are innermost in memory. Differentiable to any order. Throws as conv2d().
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv1dParams& params = {},
              Activation activation = Activation::none);

}  // namespace bytetape
