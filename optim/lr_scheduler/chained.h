#pragma once
#include <memory>

#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// What schedules made of schedules share.
class SchedulerList : public LRScheduler {
 public:
  using Schedulers = std::vector<std::shared_ptr<LRScheduler>>;
  /// With each part's below "schedulers.0".
  StateDict state_dict() const final;
  void load_state_dict(const StateDict& state) final;

 protected:
  /// Throws ValueError where there is none, one is null, or one is of another optimizer.
  SchedulerList(Optimizer& optimizer, const Schedulers& schedulers);

  std::size_t size() const { return schedulers_.size(); }
  void begin_part(std::size_t i) { schedulers_[i]->begin(); }
  void advance_part(std::size_t i) { schedulers_[i]->advance(); }
  /// Begins it at the rates that its groups began with.
  void restart_part(std::size_t i);

 private:
  void update(ParamGroup&, std::size_t) final {}
  Schedulers schedulers_;
};

/// Several schedules, each stepped in each epoch: their factors multiply (torch.optim.lr_scheduler.ChainedScheduler).
class ChainedScheduler final : public SchedulerList {
 public:
  /// Throws ValueError where there is none, one is null, or they are of different optimizers.
  explicit ChainedScheduler(const Schedulers& schedulers);

 private:
  void begin() override;
  void advance() override;
};

/// Several schedules, one after the other: number i + 1 begins anew in epoch milestones[i]
/// (torch.optim.lr_scheduler.SequentialLR).
///
///     using namespace optim::lr_scheduler;
///     SequentialLR schedule(sgd,
///                           {std::make_shared<LinearLR>(sgd),
///                            std::make_shared<CosineAnnealingLR>(sgd, CosineAnnealingLROptions{.T_max = 85})},
///                           {5});
class SequentialLR final : public SchedulerList {
 public:
  /// Throws ValueError where there is none, one is null or of another optimizer, or milestones are not one fewer,
  /// ascending from 0.
  SequentialLR(Optimizer& optimizer, const Schedulers& schedulers, std::vector<std::int64_t> milestones);

 private:
  void begin() override;
  void advance() override;
  std::size_t part_of(std::int64_t epoch) const;

  std::vector<std::int64_t> milestones_;
};

}  // namespace bytetape::optim::lr_scheduler
