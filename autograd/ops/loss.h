#pragma once
#include <cstdint>

#include "bytetape/core/reduction.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The arguments of torch.nn.functional.cross_entropy.
struct CrossEntropyOptions {
  Tensor weight = {};                     ///< (c), the weight of each class; undefined means 1
  Reduction reduction = Reduction::mean;  ///< the mean is weighted, and leaves out ignored targets
  std::int64_t ignore_index = -100;       ///< targets of this class have loss 0 and no gradient
  double label_smoothing = 0;             ///< the share of the target, 0 to 1, that is spread evenly over all classes
};

/// Computes -sum(weight * target * log softmax(logits)) over the classes (torch.nn.functional.cross_entropy).
/// - `logits`: (n, c), (n, c, d1, ...) or (c), floating-point.
/// - `target`: class indices, i64 in the shape of logits without c, or class probabilities with the shape, dtype and
///   device of logits. For probabilities the mean is over all samples and pixels, regardless of weights.
///
/// Returns a scalar. Reduction::none returns one loss per sample or pixel, in the shape of logits without c.
/// Differentiable to any order. Logits of two dims and channels-last images are read without a copy.
///
/// The loss of 16-bit logits is computed in f32. The result has the logits' dtype, or f32 under Autocast. The gradient
/// is multiplied by the incoming gradient and by 1 / (number of targets) in f32, and then rounded. 16-bit logits are
/// read without an f32 copy if `target` holds class indices. If it holds probabilities, both tensors are copied to f32.
///
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws ValueError if a class is neither in [0, c) nor ignored, if label_smoothing is not in [0, 1], or if `target`
/// holds probabilities and ignore_index is not negative.
/// Throws AutogradError if `weight` requires grad, because it gets no gradient.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});

/// The arguments of torch.nn.functional.nll_loss.
struct NllLossOptions {
  Tensor weight = {};                     ///< (c), the weight of each class; undefined means 1
  Reduction reduction = Reduction::mean;  ///< the mean is weighted, and leaves out ignored targets
  std::int64_t ignore_index = -100;       ///< targets of this class have loss 0 and no gradient
};

/// Computes -weight * log_probabilities at the target's classes (torch.nn.functional.nll_loss).
/// nll_loss(log_softmax(x, 1), t) is cross_entropy(x, t). Shapes and errors are those of cross_entropy() with class
/// indices.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const NllLossOptions& options = {});

}  // namespace bytetape
