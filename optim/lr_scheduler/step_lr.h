#pragma once
#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// The options of torch.optim.lr_scheduler.StepLR.
struct StepLROptions {
  std::int64_t step_size = 0;  ///< epochs between two changes; required
  double gamma = 0.1;          ///< factor of the rate
};

/// Multiplies lr by gamma every step_size epochs (torch.optim.lr_scheduler.StepLR).
class StepLR final : public LRScheduler {
 public:
  /// Throws ValueError unless step_size is at least 1.
  StepLR(Optimizer& optimizer, const StepLROptions& options);

 private:
  void update(ParamGroup& group, std::size_t g) override;
  StepLROptions options_;
};

}  // namespace bytetape::optim::lr_scheduler
