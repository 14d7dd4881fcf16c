#include "bytetape/optim/lr_scheduler/multi_step_lr.h"

#include <algorithm>
#include <cmath>

namespace bytetape::optim::lr_scheduler {

MultiStepLR::MultiStepLR(Optimizer& optimizer, const MultiStepLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  begin();
}

void MultiStepLR::update(ParamGroup& group, std::size_t) {
  const auto times = std::count(options_.milestones.begin(), options_.milestones.end(), last_epoch());
  group.lr = *group.lr * std::pow(options_.gamma, static_cast<double>(times));
}

}  // namespace bytetape::optim::lr_scheduler
