#pragma once
#include <cstdint>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Normalises x (n, c, ...), floating, over each of num_groups runs of c / num_groups adjacent channels of every sample
/// to mean 0 and variance 1, then scales by weight (c) and shifts by bias (c), either of which may be undefined: (x -
/// mean) / sqrt(var + eps) * weight + bias, with the biased variance (Wu & He, "Group normalization", 2018, as
/// torch.nn.functional.group_norm). weight and bias have x's dtype, or f32 where that is a 16-bit one. Channels-last
/// images stay so. Throws ShapeError, DTypeError or DeviceError on a misfit, ValueError where num_groups is not
/// positive or does not divide c, or eps is negative. Keeps x and two numbers a group. Differentiable twice and more.
Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

}  // namespace bytetape
