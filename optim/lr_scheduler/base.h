#pragma once
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "bytetape/core/state_dict.h"
#include "bytetape/optim/optimizer.h"

/// Learning rate schedules.
namespace bytetape::optim::lr_scheduler {

/// Base class of schedules, which set the learning rates of an optimizer's groups per epoch or step
/// (torch.optim.lr_scheduler.LRScheduler).
///
/// The constructor sets the rates of epoch 0. Call step() after the optimizer's step: it sets the rates of the next
/// epoch. Most schedules compute new rates from the current ones, as in PyTorch, so several of them on one optimizer
/// multiply. LambdaLR, OneCycleLR and CosineAnnealingWarmRestarts set absolute rates. Replays of a captured step use
/// the current rates. The optimizer must outlive the schedule.
///
/// A group that Optimizer::add_param_group() adds has its own rate until the next step(). From there on, schedules that
/// compute new rates from the current ones go on from that rate. Those that set absolute rates use the group's
/// initial_lr, or else its lr, as its initial rate.
///
///     optim::SGD sgd(model.parameters(), {.lr = 0.1});
///     optim::lr_scheduler::StepLR schedule(sgd, {.step_size = 30});
///     for (int epoch = 0; epoch < 90; ++epoch) {
///       train(model, sgd);
///       schedule.step();
///     }
class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// Sets the rates of the next epoch.
  /// Throws ValueError if a group was added to the optimizer, and the schedule has options for each of the old groups.
  /// Nothing has changed then.
  /// Throws CaptureError if a step is being captured, because a replay does not run host code.
  void step();
  /// Returns the current rates that this schedule set, by group.
  const std::vector<double>& get_last_lr() const { return last_lrs_; }
  /// Returns the epoch of the current rates, from 0.
  std::int64_t last_epoch() const { return last_epoch_; }
  Optimizer& optimizer() const { return optimizer_; }

  /// Returns the state. Options are not part of it. Pass them to the constructor again.
  virtual StateDict state_dict() const { return own_state(); }
  /// Restores a state. Rates and momenta belong to the optimizer's state. Load the optimizer's state after the schedule
  /// is constructed, because the constructor changes the rates.
  /// Throws ValueError, naming what is missing or unexpected, if the names do not match. The schedule is then
  /// unchanged.
  virtual void load_state_dict(const StateDict& state);

 protected:
  explicit LRScheduler(Optimizer& optimizer);

  /// Returns the initial rate of group g.
  double base_lr(std::size_t g) const { return base_lrs_[g]; }
  void set_base_lr(std::size_t g, double lr);

  /// Sets the rates of epoch 0 from the current ones. Each derived constructor calls it last.
  virtual void begin();
  /// Advances by one epoch.
  virtual void advance();
  /// Returns the initial rate of group g, which was added to the optimizer.
  /// Throws ValueError if the schedule has no options for it.
  virtual double initial_lr_of(const ParamGroup& group, std::size_t g) const;
  /// Changes the rate of group g from that of the previous epoch to that of last_epoch().
  virtual void update(ParamGroup& group, std::size_t g) = 0;
  void update_all();

 private:
  friend class SchedulerList;
  void add_groups();
  StateDict own_state() const;
  void load_own(const StateDict& state);

  Optimizer& optimizer_;
  std::int64_t last_epoch_ = 0;
  std::vector<double> base_lrs_, last_lrs_;  // by group
};

/// One number for all parameter groups, or one number per group.
class PerGroup {
 public:
  PerGroup(double value) : values_{value} {}
  PerGroup(std::initializer_list<double> values) : values_(values) {}
  PerGroup(std::vector<double> values) : values_(std::move(values)) {}

  /// Returns the numbers by group.
  /// Throws ValueError, with `name`, if the count is neither 1 nor the number of groups.
  std::vector<double> of(const Optimizer& optimizer, const char* name) const;
  /// Returns the number for group g.
  /// Throws ValueError, with `name`, if there are several numbers, but none for this group.
  double at(std::size_t g, const char* name) const;

 private:
  std::vector<double> values_;
};

}  // namespace bytetape::optim::lr_scheduler
