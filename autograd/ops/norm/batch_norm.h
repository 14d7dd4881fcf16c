#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Normalises each channel of x (n, c, h, w), (n, c, l) or (n, c), then scales by weight (c) and shifts by bias (c).
/// Returns activation(bn(x) + residual), of x's shape (Ioffe & Szegedy, 2015; torch.nn.functional.batch_norm).
/// Differentiable to any order.
/// - `weight`, `bias`: (c), or undefined.
/// - `training`: if true, uses the batch's mean and biased variance. Also moves running_mean and running_var (c), if
///   defined, by `momentum` towards the mean and the unbiased variance, and adds 1 to num_batches_tracked (an i64
///   scalar, or undefined). If false, uses the running statistics, which must be defined.
/// - `activation`: none, relu or gelu_tanh, computed in the same pass.
///   With a residual, gelu_tanh is a separate op.
/// - `residual`: a tensor like x, or undefined.
///
/// Results have the bits of separate ops, except that 16-bit sums with a residual are rounded once. Under Autocast, x
/// and residual are converted to the wider of their dtypes.
/// Saves x, and with relu and a residual also y.
/// With gelu_tanh and a residual, saves x and the input of gelu.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws ValueError if training sees one value per channel, or if `activation` is another one.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, bool training, double momentum = 0.1, double eps = 1e-5,
                  Activation activation = Activation::none, const Tensor& residual = {},
                  const Tensor& num_batches_tracked = {});

}  // namespace bytetape
