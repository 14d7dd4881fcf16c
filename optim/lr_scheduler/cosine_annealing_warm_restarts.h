#pragma once
#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// The options of torch.optim.lr_scheduler.CosineAnnealingWarmRestarts.
struct CosineAnnealingWarmRestartsOptions {
  std::int64_t T_0 = 0;     ///< epochs until the first restart; required
  std::int64_t T_mult = 1;  ///< factor of the epochs between restarts, after each restart
  double eta_min = 0;       ///< the lowest rate
};

/// Cosine annealing with warm restarts (torch.optim.lr_scheduler.CosineAnnealingWarmRestarts; Loshchilov & Hutter,
/// "SGDR: stochastic gradient descent with warm restarts", 2017).
///
/// lr = eta_min + (base_lr - eta_min) (1 + cos(pi T_cur / T_i)) / 2, where T_cur epochs of T_i have passed since the
/// last restart. Sets absolute rates. epoch counts calls of step(); PyTorch's fractional epochs are not supported.
class CosineAnnealingWarmRestarts final : public LRScheduler {
 public:
  /// Throws ValueError unless T_0 and T_mult are at least 1 and eta_min at least 0.
  CosineAnnealingWarmRestarts(Optimizer& optimizer, const CosineAnnealingWarmRestartsOptions& options);

 private:
  void update(ParamGroup& group, std::size_t g) override;
  CosineAnnealingWarmRestartsOptions options_;
};

}  // namespace bytetape::optim::lr_scheduler
