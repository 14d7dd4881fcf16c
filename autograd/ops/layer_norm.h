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

/// What add_layer_norm gives: the normalised y, and sum = x + residual, both of x's shape.
struct AddLayerNorm {
  Tensor y, sum;
};
/// y = layer_norm(sum) of sum = x + residual in one pass, forward and backward, as between the blocks of a pre-norm
/// transformer (Xiong et al., "On layer normalization in the transformer architecture", 2020):
///
///     const auto [y, sum] = add_layer_norm(attention, x, n, weight, bias);
///     x = sum + mlp(y);
///
/// residual is like x; under autocast both are brought to the wider of f32 and their dtypes, which y and sum have.
/// On the CPU the bits are those of the two ops. Errors as those of layer_norm. Keeps sum and two numbers a row.
AddLayerNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                            const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);

}  // namespace bytetape
