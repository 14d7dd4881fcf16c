#pragma once
#include <cstdint>
#include <vector>

#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// The options of torch.optim.lr_scheduler.MultiStepLR.
struct MultiStepLROptions {
  std::vector<std::int64_t> milestones = {};  ///< epochs that change the rate, in any order; an epoch may repeat
  double gamma = 0.1;                         ///< factor of the rate
};

/// Multiplies lr by gamma at each milestone (torch.optim.lr_scheduler.MultiStepLR).
class MultiStepLR final : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, const MultiStepLROptions& options);

 private:
  void update(ParamGroup& group, std::size_t g) override;
  MultiStepLROptions options_;
};

}  // namespace bytetape::optim::lr_scheduler
