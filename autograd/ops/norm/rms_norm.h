#pragma once
#include <optional>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Scales x (..., normalized_shape) over its last dims by their root mean square.
/// Returns x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich, "Root mean square layer normalization", 2019;
/// torch.nn.functional.rms_norm). x is floating-point. weight has normalized_shape and x's dtype, or f32 if x is
/// 16-bit, or is undefined. eps defaults to the epsilon of x's dtype, or of f32 if x is 16-bit, as in PyTorch. Saves x
/// and a number per row. Differentiable to any order.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws ValueError if eps is negative.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});

}  // namespace bytetape
