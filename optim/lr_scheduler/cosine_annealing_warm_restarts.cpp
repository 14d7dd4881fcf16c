#include "bytetape/optim/lr_scheduler/cosine_annealing_warm_restarts.h"

#include <cmath>
#include <numbers>

namespace bytetape::optim::lr_scheduler {

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer,
                                                         const CosineAnnealingWarmRestartsOptions& options)
    : LRScheduler(optimizer), options_(options) {
  const auto& [T_0, T_mult, eta_min] = options_;
  check<ValueError>(T_0 >= 1 && T_mult >= 1, "CosineAnnealingWarmRestarts needs T_0 and T_mult of at least 1, got ",
                    T_0, " and ", T_mult);
  check<ValueError>(eta_min >= 0, "CosineAnnealingWarmRestarts: eta_min must not be negative, got ", eta_min);
  begin();
}

void CosineAnnealingWarmRestarts::update(ParamGroup& group, std::size_t g) {
  std::int64_t passed = last_epoch(), period = options_.T_0;
  if (options_.T_mult == 1) passed %= period;
  for (; passed >= period; period *= options_.T_mult) passed -= period;
  const double angle = std::numbers::pi * static_cast<double>(passed) / static_cast<double>(period);
  group.lr = options_.eta_min + (base_lr(g) - options_.eta_min) * (1 + std::cos(angle)) / 2;
}

}  // namespace bytetape::optim::lr_scheduler
