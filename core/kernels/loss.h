#pragma once
#include <cstdint>

#include "bytetape/core/view.h"

namespace bytetape {

/// logits (n, c), target i64 (n), in range: that was checked. Rows whose target is `ignore` count as 0.
struct LossKernels {
  // losses (n); lse (n), log(sum(exp(logits))), in the type that logits are computed in
  void (*cross_entropy)(const ConstView& logits, const ConstView& target, std::int64_t ignore, double smoothing,
                        const View& losses, const View& lse);
  // gx = (softmax - smoothed one-hot) * gy, with gy (n)
  void (*cross_entropy_backward)(const ConstView& logits, const ConstView& target, const ConstView& lse,
                                 const ConstView& gy, std::int64_t ignore, double smoothing, const View& gx);
  // y i64 (3): smallest and largest target and how many there are, those that are `ignore` left out
  void (*target_range)(const ConstView& target, std::int64_t ignore, const View& y);
};

}  // namespace bytetape
