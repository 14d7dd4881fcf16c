#pragma once
#include "bytetape/core/reduction.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Losses of each element
/// Of floating x and a target like it; the result is a scalar, or has x's shape for Reduction::none. Under Autocast
/// they compute in f32, and give it. ShapeError where the shapes differ, which PyTorch warns of: expand() one where
/// that is meant; DTypeError and DeviceError as in arithmetic. Differentiable twice and more, in the target too.
/// @{

/// (x - target)^2 (torch.nn.functional.mse_loss).
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
/// |x - target|, with the gradient 0 where they are equal (torch.nn.functional.l1_loss).
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
/// d^2 / 2 of d = x - target up to |d| = delta, delta (|d| - delta / 2) from there (torch.nn.functional.huber_loss;
/// Huber 1964). ValueError unless delta > 0.
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean, double delta = 1);

/// As the arguments of torch.nn.functional.binary_cross_entropy_with_logits.
struct BinaryCrossEntropyOptions {
  Tensor weight = {};                     ///< of each loss, broadcast to x; undefined stands for ones
  Reduction reduction = Reduction::mean;  ///< mean: over all elements, whatever their weights
  Tensor pos_weight = {};                 ///< what a target of 1 counts, broadcast to x; undefined stands for ones
};
/// weight * -(pos_weight * target * log(sigmoid(x)) + (1 - target) * log(1 - sigmoid(x))), without overflow; targets
/// are 0 to 1 (torch.nn.functional.binary_cross_entropy_with_logits).
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options = {});
/// @}

}  // namespace bytetape
