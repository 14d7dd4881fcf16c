#pragma once
#include <cstdint>

#include "bytetape/core/kernels/loss.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// As the arguments of torch.nn.functional.cross_entropy.
struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;  ///< mean: over the targets that are not ignored
  std::int64_t ignore_index = -100;       ///< such a target has the loss 0 and no gradient
  double label_smoothing = 0;             ///< 0 to 1: this much of the target is spread evenly over all classes
};

/// -log softmax(logits)[target], logits (n, c) floating, target (n) i64 (torch.nn.functional.cross_entropy). Result: a
/// scalar, or (n) for Reduction::none. Throws ValueError where a target is neither in [0, c) nor ignored.
/// Differentiable twice and more.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});

}  // namespace bytetape
