#pragma once
#include <cstdint>

#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// What becomes of the losses of a batch.
enum class Reduction : std::uint8_t { none, mean, sum };

// logits (n, c) of f32 or f64, target i64 (n). Rows whose target is `ignore` count as 0; a target that is no class is a
// fault (core/fault.h). lse (n), log(sum(exp(logits))), and count, a scalar, how many targets are not `ignore`, have
// the dtype of the logits.
struct CrossEntropyArgs {
  ConstView logits, target;
  std::int64_t ignore;
  double smoothing;
  Reduction reduction;
  View y;  // (n) for Reduction::none, else a scalar
  View lse, count;
};
/// gx = (softmax - smoothed one-hot) * gy, which is like y, / count for Reduction::mean. gx may be the logits.
struct CrossEntropyBackwardArgs {
  ConstView logits, target, lse, count, gy;
  std::int64_t ignore;
  double smoothing;
  Reduction reduction;
  View gx;
};

struct LossKernels {
  Planned<CrossEntropyArgs> cross_entropy;
  void (*cross_entropy_backward)(const CrossEntropyBackwardArgs& args);
};

}  // namespace bytetape
