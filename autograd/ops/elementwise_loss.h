#pragma once
#include <cstdint>

#include "bytetape/core/reduction.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Elementwise losses
/// x is floating-point. target has x's shape, dtype and device. The result is a scalar, or has x's shape for
/// Reduction::none. Under Autocast these ops compute in f32 and return f32. Differentiable to any order, also in the
/// target.
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
/// weight * -(pos_weight * target * log(sigmoid(x)) + (1 - target) * log(1 - sigmoid(x))), without overflow
/// (torch.nn.functional.binary_cross_entropy_with_logits). Targets must be in [0, 1], which is not checked.
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options = {});

/// The reduction of kl_div. batchmean: the sum over the size of dim 0, which is the divergence; mean: over all
/// elements.
enum class KlDivReduction : std::uint8_t { none, batchmean, mean, sum };
constexpr const char* name_of(KlDivReduction r) {
  constexpr const char* names[] = {"none", "batchmean", "mean", "sum"};
  return names[static_cast<int>(r)];
}
/// The Kullback-Leibler divergence of log-probabilities x from a target: target * (log(target) - x), and 0 where the
/// target is 0. With log_target the target is log-probabilities too: exp(target) * (target - x)
/// (torch.nn.functional.kl_div).
Tensor kl_div(const Tensor& x, const Tensor& target, KlDivReduction reduction = KlDivReduction::mean,
              bool log_target = false);
/// @}

}  // namespace bytetape
