#pragma once
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// 2-d convolution: x (n, c, h, w), weight (o, c / groups, kh, kw), bias (o) or undefined -> (n, o, h', w'),
/// channels-last.
/// h' = floor((h + 2 padding - dilation (kh - 1) - 1) / stride) + 1 (torch.nn.functional.conv2d). The activation is
/// applied after the bias. Differentiable to any order.
/// Throws ShapeError if the shapes do not fit.
/// Throws ValueError if a parameter is out of range, or the activation is not none or relu.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv2dParams& params = {},
              Activation activation = Activation::none);

}  // namespace bytetape
