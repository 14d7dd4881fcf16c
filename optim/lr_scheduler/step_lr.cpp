#include "bytetape/optim/lr_scheduler/step_lr.h"

namespace bytetape::optim::lr_scheduler {

StepLR::StepLR(Optimizer& optimizer, const StepLROptions& options) : LRScheduler(optimizer), options_(options) {
  check<ValueError>(options.step_size >= 1, "StepLR needs a step_size of at least 1, got ", options.step_size);
  begin();
}

void StepLR::update(ParamGroup& group, std::size_t) {
  if (last_epoch() != 0 && last_epoch() % options_.step_size == 0) group.lr = *group.lr * options_.gamma;
}

}  // namespace bytetape::optim::lr_scheduler
