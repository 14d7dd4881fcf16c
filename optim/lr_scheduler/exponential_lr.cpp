#include "bytetape/optim/lr_scheduler/exponential_lr.h"

namespace bytetape::optim::lr_scheduler {

ExponentialLR::ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options)
    : LRScheduler(optimizer), gamma_(options.gamma) {
  check<ValueError>(gamma_ > 0, "ExponentialLR needs a positive gamma, got ", gamma_);
  begin();
}

void ExponentialLR::update(ParamGroup& group, std::size_t) {
  if (last_epoch() > 0) group.lr = *group.lr * gamma_;
}

}  // namespace bytetape::optim::lr_scheduler
