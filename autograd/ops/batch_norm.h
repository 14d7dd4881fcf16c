#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Normalises x (n, c, h, w), (n, c, l) or (n, c) over all dims but c, then scales by weight (c) and shifts by bias
/// (c), either of which may be undefined (Ioffe & Szegedy 2015, as torch.nn.functional.batch_norm). Training uses the
/// batch's mean and biased variance and, where running_mean and running_var (c) are defined, moves them by `momentum`
/// towards the mean and the unbiased variance; num_batches_tracked, an i64 scalar or undefined, counts up. Evaluation
/// uses the running ones, which must then be defined. Throws ValueError where training sees one value a channel.
/// Differentiable twice and more.
///
/// In the same pass adds a residual (like x, or undefined) and applies an activation: activation(bn(x) + residual),
/// with the same bits as one op after the other, but that 16-bit sums with a residual are rounded once. The activation
/// is none or relu (ValueError). Under autocast x and a residual of another floating dtype are brought to the wider one
/// first, which y has. Keeps x, and y where there are both a residual and an activation.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, bool training, double momentum = 0.1, double eps = 1e-5,
                  Activation activation = Activation::none, const Tensor& residual = {},
                  const Tensor& num_batches_tracked = {});

}  // namespace bytetape
