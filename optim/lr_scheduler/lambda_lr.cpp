#include "bytetape/optim/lr_scheduler/lambda_lr.h"

#include <utility>

namespace bytetape::optim::lr_scheduler {

LambdaLR::LambdaLR(Optimizer& optimizer, const Lambda& lr_lambda)
    : LambdaLR(optimizer, std::vector(optimizer.param_groups().size(), lr_lambda)) {
  of_added_ = lr_lambda;
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Lambda> lr_lambdas)
    : LRScheduler(optimizer), lr_lambdas_(std::move(lr_lambdas)) {
  const std::size_t groups = optimizer.param_groups().size();
  check<ValueError>(lr_lambdas_.size() == groups, "LambdaLR needs ", groups,
                    " functions, one for each parameter group, got ", lr_lambdas_.size());
  for (const Lambda& f : lr_lambdas_) check<ValueError>(f != nullptr, "LambdaLR needs functions that are not empty");
  begin();
}

double LambdaLR::initial_lr_of(const ParamGroup& group, std::size_t g) const {
  check<ValueError>(of_added_ != nullptr, "LambdaLR has ", lr_lambdas_.size(),
                    " functions, one for each parameter group, but none for the added group ", g,
                    ": make a new schedule");
  return LRScheduler::initial_lr_of(group, g);
}

void LambdaLR::update(ParamGroup& group, std::size_t g) {
  group.lr = base_lr(g) * (g < lr_lambdas_.size() ? lr_lambdas_[g] : of_added_)(last_epoch());
}

}  // namespace bytetape::optim::lr_scheduler
