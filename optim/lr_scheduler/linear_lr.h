#pragma once
#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// The options of torch.optim.lr_scheduler.LinearLR.
struct LinearLROptions {
  double start_factor = 1.0 / 3;  ///< factor of the rate in epoch 0
  double end_factor = 1;          ///< factor of the rate from epoch total_iters on
  std::int64_t total_iters = 5;   ///< epochs between the two
};

/// Linear warmup: multiplies lr by a factor that goes from start_factor to end_factor in equal steps
/// (torch.optim.lr_scheduler.LinearLR).
class LinearLR final : public LRScheduler {
 public:
  /// Throws ValueError unless start_factor is in (0, 1], end_factor in [0, 1] and total_iters at least 1.
  explicit LinearLR(Optimizer& optimizer, const LinearLROptions& options = {});

 private:
  void update(ParamGroup& group, std::size_t g) override;
  LinearLROptions options_;
};

}  // namespace bytetape::optim::lr_scheduler
