#pragma once
#include "bytetape/core/reduction.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Elementwise losses
/// x is floating-point, and target is like x. The result is a scalar, or has x's shape for Reduction::none. Under
/// Autocast they compute in f32 and return it. Differentiable to any order, also in the target.
/// Throws ShapeError if the shapes differ (PyTorch warns). Call expand() to broadcast.
/// Throws DTypeError or DeviceError if dtypes or devices differ.
/// @{

/// (x - target)^2 (torch.nn.functional.mse_loss).
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
/// |x - target|, with gradient 0 at equality (torch.nn.functional.l1_loss).
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
/// d^2 / 2 for |d| <= delta, else delta (|d| - delta / 2), with d = x - target (torch.nn.functional.huber_loss; Huber,
/// 1964).
/// Throws ValueError unless delta > 0.
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean, double delta = 1);

/// The arguments of torch.nn.functional.binary_cross_entropy_with_logits.
struct BinaryCrossEntropyOptions {
  Tensor weight = {};                     ///< weight of each loss, broadcast to x; undefined means 1
  Reduction reduction = Reduction::mean;  ///< mean: over all elements, regardless of weights
  Tensor pos_weight = {};                 ///< weight of positive targets, broadcast to x; undefined means 1
};
/// weight * -(pos_weight * target * log(sigmoid(x)) + (1 - target) * log(1 - sigmoid(x))), without overflow.
/// Targets are in [0, 1] (torch.nn.functional.binary_cross_entropy_with_logits).
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options = {});
/// @}

}  // namespace bytetape
