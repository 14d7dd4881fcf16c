#pragma once
#include <cstdint>

#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/kernels/work.h"
#include "bytetape/core/reduction.h"
#include "bytetape/core/view.h"

namespace bytetape {

// logits (n, c) have any floating dtype; target is i64 (n). Rows with target `ignore` count as 0. A target that is no
// class is a fault (core/device/fault.h). lse (n) = log(sum(exp(logits))), count, a scalar, and all tensors that are
// not said to be like the logits are in f32 if the logits are 16-bit, else in their dtype.
struct CrossEntropyArgs {
  ConstView logits, target;
  std::int64_t ignore;
  double smoothing;
  Reduction reduction;
  View y;            // (n) for Reduction::none, else a scalar
  View lse;          // undefined for log-probabilities: lse is 0, and there is no smoothing
  View count;        // number of targets that are not `ignore`, or the sum of their weights
  ConstView weight;  // (c); undefined means 1
  ConstView total;   // the sum of weight, a scalar, needed for smoothing
};
/// gx = (softmax - smoothed one-hot) * gy, with the same weights. gy has the shape of y, and is divided by count for
/// Reduction::mean. gx has the dtype of the logits, and may be the logits. It is rounded once, when it is stored.
struct CrossEntropyBackwardArgs {
  ConstView logits, target, lse, count, gy;
  std::int64_t ignore;
  double smoothing;
  Reduction reduction;
  View gx;
  ConstView weight, total;
};

/// losses = log(sum(exp(logits))) - logits[target] for each row, and then logits = softmax(logits) - one-hot, if
/// `writes_gradient`. Both are 0 for rows with target `ignore`. logits (n, c) have any floating dtype, and the classes
/// of a row are adjacent. losses (n) have the dtype in which they are computed.
struct CrossEntropyInPlaceArgs {
  View logits;
  ConstView target;
  std::int64_t ignore;
  bool writes_gradient;
  View losses;

  /// Logits are read, and written if the gradient is.
  std::uint64_t moved_bytes() const {
    return detail::bytes_of_fields(*this) + (writes_gradient ? bytetape::moved_bytes(logits) : 0);
  }
};

struct LossKernels {
  Planned<CrossEntropyArgs> cross_entropy;
  void (*cross_entropy_backward)(const CrossEntropyBackwardArgs& args);
  void (*cross_entropy_in_place)(const CrossEntropyInPlaceArgs& args);
};

}  // namespace bytetape
