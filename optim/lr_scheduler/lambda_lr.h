#pragma once
#include <functional>

#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// Sets lr = base_lr * lr_lambda(epoch) (torch.optim.lr_scheduler.LambdaLR).
///
///     optim::lr_scheduler::LambdaLR schedule(sgd, [](std::int64_t epoch) { return std::pow(0.95, epoch); });
class LambdaLR final : public LRScheduler {
 public:
  using Lambda = std::function<double(std::int64_t epoch)>;
  /// Throws ValueError if lr_lambda is empty.
  LambdaLR(Optimizer& optimizer, const Lambda& lr_lambda);
  /// Takes a function for each group.
  /// Throws ValueError if their number is not that of the groups, or one is empty.
  LambdaLR(Optimizer& optimizer, std::vector<Lambda> lr_lambdas);

 private:
  void update(ParamGroup& group, std::size_t g) override;
  double initial_lr_of(const ParamGroup& group, std::size_t g) const override;
  std::vector<Lambda> lr_lambdas_;  // by group
  Lambda of_added_;                 // of groups that were added later; empty if each group has its own function
};

}  // namespace bytetape::optim::lr_scheduler
