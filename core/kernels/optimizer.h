#pragma once
#include <cstdint>
#include <span>

#include "bytetape/core/view.h"

namespace bytetape {

/// One parameter of an SGD step (torch.optim.SGD): momentum_buffer is undefined where momentum is 0.
struct SgdSlot {
  View parameter;
  ConstView gradient;
  View momentum_buffer;
  bool first_step;  // the buffer holds nothing yet and becomes the gradient
};
struct SgdParams {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
};

/// One parameter of an Adam step (torch.optim.Adam, AdamW with `decoupled`).
struct AdamSlot {
  View parameter;
  ConstView gradient;
  View exp_avg, exp_avg_sq;
  std::int64_t step;  // from 1
};
struct AdamParams {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled;
};

/// Every parameter in one call; the views of a slot are dense and have the same strides and dtype.
struct OptimizerKernels {
  void (*sgd)(std::span<const SgdSlot> slots, const SgdParams& p);
  void (*adam)(std::span<const AdamSlot> slots, const AdamParams& p);
};

}  // namespace bytetape
