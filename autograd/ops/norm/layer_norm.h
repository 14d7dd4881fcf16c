#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Normalises x (..., normalized_shape) over its last dims.
/// Returns (x - mean) / sqrt(var + eps) * weight + bias, with the biased variance (Ba, Kiros & Hinton, "Layer
/// normalization", 2016; torch.nn.functional.layer_norm). x is floating-point. weight and bias have normalized_shape
/// and x's dtype, or f32 if x is 16-bit, or are undefined. Saves x and two numbers per row. Differentiable to any
/// order.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws ValueError if eps is negative.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

/// The result of add_layer_norm(): y = layer_norm(sum), and sum = x + residual. Both have x's shape.
struct AddLayerNorm {
  Tensor y, sum;
};
/// Computes sum = x + residual and y = layer_norm(sum) in one pass, forward and backward.
/// For the blocks of a pre-norm transformer (Xiong et al., "On layer normalization in the transformer architecture",
/// 2020):
///
///     const auto [y, sum] = add_layer_norm(attention, x, n, weight, bias);
///     x = sum + mlp(y);
///
/// `residual` has x's shape, dtype and device. Under autocast a 16-bit x may be added to an f32 residual: y then has
/// the dtype of x, and sum is f32. Otherwise both are converted to the widest of f32 and their dtypes, which y and sum
/// have. On the CPU the bits are those of the two ops. Saves sum and two numbers per row. Throws as layer_norm().
AddLayerNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                            const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);

}  // namespace bytetape
