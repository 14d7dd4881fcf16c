#pragma once
#include <memory>

#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// Base class of schedules that consist of schedules.
class SchedulerList : public LRScheduler {
 public:
  using Schedulers = std::vector<std::shared_ptr<LRScheduler>>;
  /// Returns the state, with the states of the parts below "schedulers.0", "schedulers.1", ...
  StateDict state_dict() const final;
  void load_state_dict(const StateDict& state) final;

 protected:
  /// Throws ValueError if `schedulers` is empty, or one is null or has another optimizer.
  SchedulerList(Optimizer& optimizer, const Schedulers& schedulers);

  std::size_t size() const { return schedulers_.size(); }
  void begin_part(std::size_t i) { schedulers_[i]->begin(); }
  void advance_part(std::size_t i);
  /// Restarts part i from the initial rates of the groups.
  void restart_part(std::size_t i);

 private:
  double initial_lr_of(const ParamGroup& group, std::size_t g) const final;
  void update(ParamGroup&, std::size_t) final {}
  Schedulers schedulers_;
};

/// Steps several schedules in each epoch, so that their factors multiply (torch.optim.lr_scheduler.ChainedScheduler).
class ChainedScheduler final : public SchedulerList {
 public:
  /// Throws ValueError if `schedulers` is empty, one is null, or they have different optimizers.
  explicit ChainedScheduler(const Schedulers& schedulers);

 private:
  void begin() override;
  void advance() override;
};

/// Runs several schedules in sequence: schedule i + 1 starts in epoch milestones[i]
/// (torch.optim.lr_scheduler.SequentialLR).
///
///     using namespace optim::lr_scheduler;
///     SequentialLR schedule(sgd,
///                           {std::make_shared<LinearLR>(sgd),
///                            std::make_shared<CosineAnnealingLR>(sgd, CosineAnnealingLROptions{.T_max = 85})},
///                           {5});
class SequentialLR final : public SchedulerList {
 public:
  /// Throws ValueError if `schedulers` is empty, or one is null or has another optimizer.
  /// Throws ValueError unless there is one milestone less than schedules, and milestones are ascending and not
  /// negative.
  SequentialLR(Optimizer& optimizer, const Schedulers& schedulers, std::vector<std::int64_t> milestones);

 private:
  void begin() override;
  void advance() override;
  std::size_t part_of(std::int64_t epoch) const;

  std::vector<std::int64_t> milestones_;
};

}  // namespace bytetape::optim::lr_scheduler
