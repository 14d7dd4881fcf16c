#pragma once
#include <cstdint>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Normalises x (n, c, ...) over each group of c / num_groups adjacent channels of a sample.
/// Returns (x - mean) / sqrt(var + eps) * weight + bias, with the biased variance (Wu & He, "Group normalization",
/// 2018; torch.nn.functional.group_norm). x is floating-point. weight and bias have shape (c) and x's dtype, or f32 if
/// x is 16-bit, or are undefined. Channels-last images stay channels-last. Saves x and two numbers per group.
/// Differentiable to any order.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws ValueError if num_groups is not positive or does not divide c, or if eps is negative.
Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

}  // namespace bytetape
