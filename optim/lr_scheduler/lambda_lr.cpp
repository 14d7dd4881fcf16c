#include "bytetape/optim/lr_scheduler/lambda_lr.h"

#include <utility>

namespace bytetape::optim::lr_scheduler {

LambdaLR::LambdaLR(Optimizer& optimizer, Lambda lr_lambda)
    : LambdaLR(optimizer, std::vector(optimizer.param_groups().size(), std::move(lr_lambda))) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Lambda> lr_lambdas)
    : LRScheduler(optimizer), lr_lambdas_(std::move(lr_lambdas)) {
  const std::size_t groups = optimizer.param_groups().size();
  check<ValueError>(lr_lambdas_.size() == groups, "LambdaLR needs ", groups,
                    " functions, one for each parameter group, got ", lr_lambdas_.size());
  for (const Lambda& f : lr_lambdas_) check<ValueError>(f != nullptr, "LambdaLR needs functions that are not empty");
  begin();
}

void LambdaLR::update(ParamGroup& group, std::size_t g) { group.lr = base_lr(g) * lr_lambdas_[g](last_epoch()); }

}  // namespace bytetape::optim::lr_scheduler
