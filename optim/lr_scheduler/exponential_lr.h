#pragma once
#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// The options of torch.optim.lr_scheduler.ExponentialLR.
struct ExponentialLROptions {
  double gamma = 0;  ///< factor of the rate; required
};

/// Multiplies lr by gamma each epoch (torch.optim.lr_scheduler.ExponentialLR).
class ExponentialLR final : public LRScheduler {
 public:
  /// Throws ValueError unless gamma is positive.
  ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options);

 private:
  void update(ParamGroup& group, std::size_t g) override;
  double gamma_;
};

}  // namespace bytetape::optim::lr_scheduler
