#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Normalises x (n, c, h, w) or (n, c) over all dims but c, then scales by weight (c) and shifts by bias (c), either of
/// which may be undefined (Ioffe & Szegedy 2015, as torch.nn.functional.batch_norm). Training uses the batch's mean and
/// biased variance and, where running_mean and running_var (c) are defined, moves them by `momentum` towards the mean
/// and the unbiased variance. Evaluation uses the running ones, which must then be defined. Throws ValueError where
/// training sees one value a channel. Differentiable twice and more.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, bool training, double momentum = 0.1, double eps = 1e-5);

}  // namespace bytetape
