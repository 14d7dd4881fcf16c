#pragma once
#include <cstdint>

#include "bytetape/core/reduction.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The arguments of linear_cross_entropy().
struct LinearCrossEntropyOptions {
  Reduction reduction = Reduction::mean;  ///< mean (over the targets that are not ignored) or sum
  std::int64_t ignore_index = -100;       ///< targets of this class have loss 0 and no gradient
  std::int64_t chunks = 0;                ///< number of chunks of rows; 0: the fewest of at most 512 MiB of logits
};

/// Computes cross_entropy(linear(x, weight), target) without the whole tensor of logits: for language models, whose
/// logits are the largest tensor of a step.
/// - `x`: (..., features), floating-point. `weight`: (classes, features).
/// - `target`: class indices, i64 (...).
///
/// Logits are computed in the dtype of x, and their losses in f32 or f64, one chunk of rows at a time. If a gradient
/// is needed, forward computes the gradients of x and weight, chunk by chunk, and saves them instead of the logits.
/// Backward multiplies the saved gradients by the incoming one in f32. Returns a scalar in the dtype of x, in f32 under
/// Autocast. Differentiable to any order; higher derivatives take a whole tensor of logits. Throws ShapeError,
/// DTypeError or DeviceError if the tensors do not fit. Throws ValueError if a class is neither in [0, classes) nor
/// ignored, if chunks is negative, or if the reduction is none.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const LinearCrossEntropyOptions& options = {});

}  // namespace bytetape
