#pragma once
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// x (n, c, h, w), weight (o, c / groups, kh, kw), bias (o) or undefined -> (n, o, h', w'), stored channels-last, with
/// h' = (h + 2 padding - dilation (kh - 1) - 1) / stride + 1, rounded down (torch.nn.functional.conv2d); the
/// activation, none or relu, is applied to the sum with the bias. ShapeError on a misfit, ValueError on parameters out
/// of range. Differentiable twice and more.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv2dParams& params = {},
              Activation activation = Activation::none);

}  // namespace bytetape
