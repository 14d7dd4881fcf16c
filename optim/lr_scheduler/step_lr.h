#pragma once
#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// As torch.optim.lr_scheduler.StepLR's.
struct StepLROptions {
  std::int64_t step_size = 0;  ///< epochs; to be given
  double gamma = 0.1;          ///< times the rate
};

/// lr *= gamma, every step_size epochs (torch.optim.lr_scheduler.StepLR).
class StepLR final : public LRScheduler {
 public:
  /// Throws ValueError unless step_size is at least 1.
  StepLR(Optimizer& optimizer, const StepLROptions& options);

 private:
  void update(ParamGroup& group, std::size_t g) override;
  StepLROptions options_;
};

}  // namespace bytetape::optim::lr_scheduler
