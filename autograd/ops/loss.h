#pragma once
#include <cstdint>

#include "bytetape/core/reduction.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// As the arguments of torch.nn.functional.cross_entropy.
struct CrossEntropyOptions {
  Tensor weight = {};                     ///< (c), what each class counts; undefined stands for ones
  Reduction reduction = Reduction::mean;  ///< mean: over the targets that are not ignored, by their weights
  std::int64_t ignore_index = -100;       ///< such a target has the loss 0 and no gradient
  double label_smoothing = 0;             ///< 0 to 1: this much of the target is spread evenly over all classes
};

/// -sum(weight * target * log softmax(logits)) over the classes (torch.nn.functional.cross_entropy) of floating logits
/// (n, c), (n, c, d1, ...) or (c). The target says which class it is, i64 of that shape without c, or how probable each
/// is, like the logits; its mean is then over all rows, whatever their weights. Result: a scalar, or for
/// Reduction::none a loss for each row, in that shape without c. Throws ValueError where a class is neither in [0, c)
/// nor ignored, or ignore_index is one while the target holds probabilities; AutogradError where the weight requires
/// grad, for it gets none. Rows of logits (n, c) and of channels-last images are read as they lie. Differentiable twice
/// and more.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});

/// As the arguments of torch.nn.functional.nll_loss.
struct NllLossOptions {
  Tensor weight = {};                     ///< as in CrossEntropyOptions
  Reduction reduction = Reduction::mean;  ///< likewise
  std::int64_t ignore_index = -100;       ///< likewise
};

/// -weight * log_probabilities at the target's classes: cross_entropy() behind log_softmax(). Shapes and errors are
/// those of cross_entropy with class indices (torch.nn.functional.nll_loss).
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const NllLossOptions& options = {});

}  // namespace bytetape
