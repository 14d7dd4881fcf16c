#include "bytetape/optim/lr_scheduler/cosine_annealing_lr.h"

#include <cmath>
#include <numbers>

namespace bytetape::optim::lr_scheduler {

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  check<ValueError>(options.T_max >= 1, "CosineAnnealingLR needs a T_max of at least 1, got ", options.T_max);
  check<ValueError>(options.eta_min >= 0, "CosineAnnealingLR: eta_min must not be negative, got ", options.eta_min);
  begin();
}

void CosineAnnealingLR::update(ParamGroup& group, std::size_t g) {
  const auto& [T_max, eta_min] = options_;
  const auto cos_at = [most = T_max](std::int64_t epoch) {
    return std::cos(std::numbers::pi * static_cast<double>(epoch) / static_cast<double>(most));
  };
  const std::int64_t epoch = last_epoch();
  const double lr = *group.lr;
  if (epoch == 0) return;
  if ((epoch - 1 - T_max) % (2 * T_max) == 0)  // the last rate was eta_min, from which no factor raises it
    group.lr = lr + (base_lr(g) - eta_min) * (1 - cos_at(1)) / 2;
  else
    group.lr = (1 + cos_at(epoch)) / (1 + cos_at(epoch - 1)) * (lr - eta_min) + eta_min;
}

}  // namespace bytetape::optim::lr_scheduler
