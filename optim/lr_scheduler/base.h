#pragma once
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "bytetape/core/state_dict.h"
#include "bytetape/optim/optimizer.h"

/// Schedules of the learning rate.
namespace bytetape::optim::lr_scheduler {

/// Base of what sets the learning rates of an optimizer's groups, epoch by epoch or step by step
/// (torch.optim.lr_scheduler.LRScheduler). Made, it sets those of epoch 0; a step after the optimizer's sets the next.
/// Rates come from those of the epoch before, as in PyTorch, so that schedules of one optimizer multiply. Captured
/// steps go on at the rates that they find. Refers to the optimizer, which outlives it.
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

  /// Sets the rates of the next epoch. Throws CaptureError within a step that is being captured: it is the host's.
  void step();
  /// By group, what the last step set.
  const std::vector<double>& get_last_lr() const { return last_lrs_; }
  /// Which epoch they are for, from 0.
  std::int64_t last_epoch() const { return last_epoch_; }
  Optimizer& optimizer() const { return optimizer_; }

  /// Where it stands; its options are the constructor's.
  virtual StateDict state_dict() const { return own_state(); }
  /// Goes on from there. The rates and momenta themselves come with the optimizer's state, to be loaded after the
  /// schedule was made. Throws ValueError, naming what is missing or unexpected, before anything is changed.
  virtual void load_state_dict(const StateDict& state);

 protected:
  explicit LRScheduler(Optimizer& optimizer);

  /// What group number g began with.
  double base_lr(std::size_t g) const { return base_lrs_[g]; }
  void set_base_lr(std::size_t g, double lr);

  /// Sets epoch 0 on top of the rates of now; the last thing that a constructor does.
  virtual void begin();
  /// Goes on by an epoch.
  virtual void advance();
  /// Sets the rate of group number g, which is that of the epoch before, to that of last_epoch().
  virtual void update(ParamGroup& group, std::size_t g) = 0;
  void update_all();

 private:
  friend class SchedulerList;
  StateDict own_state() const;
  void load_own(const StateDict& state);

  Optimizer& optimizer_;
  std::int64_t last_epoch_ = 0;
  std::vector<double> base_lrs_, last_lrs_;  // by group
};

/// A number for all groups, or one for each.
class PerGroup {
 public:
  PerGroup(double value) : values_{value} {}
  PerGroup(std::initializer_list<double> values) : values_(values) {}
  PerGroup(std::vector<double> values) : values_(std::move(values)) {}

  /// By group. Throws ValueError, calling it `name`, where there are neither 1 nor as many.
  std::vector<double> of(const Optimizer& optimizer, const char* name) const;

 private:
  std::vector<double> values_;
};

}  // namespace bytetape::optim::lr_scheduler
