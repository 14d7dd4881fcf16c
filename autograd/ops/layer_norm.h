#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Normalises x (..., normalized_shape), floating, over its last dims to mean 0 and variance 1, then scales by weight
/// and shifts by bias (normalized_shape), either of which may be undefined: (x - mean) / sqrt(var + eps) * weight +
/// bias, with the biased variance (Ba, Kiros & Hinton, "Layer normalization", 2016, as torch.nn.functional.layer_norm).
/// weight and bias have x's dtype, or f32 where that is a 16-bit one. Throws ShapeError, DTypeError or DeviceError on a
/// misfit, ValueError where eps is negative. Keeps x and two numbers a row. Differentiable twice and more.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

}  // namespace bytetape
