#pragma once
#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// The options of torch.optim.lr_scheduler.CosineAnnealingLR.
struct CosineAnnealingLROptions {
  std::int64_t T_max = 0;  ///< epochs until the rate is lowest; required
  double eta_min = 0;      ///< the lowest rate
};

/// Cosine annealing (torch.optim.lr_scheduler.CosineAnnealingLR; Loshchilov & Hutter, "SGDR: stochastic gradient
/// descent with warm restarts", 2017, without the restarts).
///
/// lr = eta_min + (base_lr - eta_min) (1 + cos(pi epoch / T_max)) / 2. After T_max epochs the rate rises again.
class CosineAnnealingLR final : public LRScheduler {
 public:
  /// Throws ValueError unless T_max is at least 1 and eta_min at least 0.
  CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options);

 private:
  void update(ParamGroup& group, std::size_t g) override;
  CosineAnnealingLROptions options_;
};

}  // namespace bytetape::optim::lr_scheduler
