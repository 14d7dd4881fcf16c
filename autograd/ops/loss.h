#pragma once
#include <cstdint>

#include "bytetape/core/tensor.h"

namespace bytetape {

enum class Reduction : std::uint8_t { none, mean, sum };

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;  // mean: over the targets that are not ignored
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
};

/// -log softmax(logits)[target], logits (n, c) floating, target (n) i64 (torch.nn.functional.cross_entropy). Result: a
/// scalar, or (n) for Reduction::none. Throws ValueError where a target is not in [0, c). The backward is fused:
/// create_graph throws.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});

}  // namespace bytetape
