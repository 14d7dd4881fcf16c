#pragma once
#include <cstdint>

#include "bytetape/core/size2.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Geometry of a transposed 2-d convolution: that of the conv2d whose input's gradient it is.
struct ConvTranspose2dParams {
  Size2 stride = 1, padding = 0;
  Size2 output_padding = 0;  ///< rows and columns more at the end, which the stride leaves open
  Size2 dilation = 1;
  std::int64_t groups = 1;
};

/// x (n, c, h, w), weight (c, o / groups, kh, kw), bias (o) or undefined -> (n, o, h', w'), stored channels-last, with
/// h' = (h - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1 (torch.nn.functional.conv_transpose2d).
/// ShapeError on a misfit, ValueError on parameters out of range: output_padding is smaller than stride or dilation.
/// Differentiable twice and more.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dParams& params = {});

}  // namespace bytetape
