#pragma once
#include <cstdint>

#include "bytetape/core/size2.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Geometry of a transposed 2-d convolution. It equals that of the conv2d whose input gradient it computes.
struct ConvTranspose2dParams {
  Size2 stride = 1, padding = 0;
  Size2 output_padding = 0;  ///< rows and columns to add at the end
  Size2 dilation = 1;
  std::int64_t groups = 1;
};

/// Transposed 2-d convolution: x (n, c, h, w), weight (c, o / groups, kh, kw), bias (o) or undefined -> (n, o, h', w').
/// h' = (h - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1 (torch.nn.functional.conv_transpose2d). The
/// result is channels-last. Differentiable to any order.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws ValueError if a parameter is out of range. output_padding must be smaller than stride or dilation.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dParams& params = {});

}  // namespace bytetape
