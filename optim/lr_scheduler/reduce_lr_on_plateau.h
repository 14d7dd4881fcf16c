#pragma once
#include <limits>

#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// The options of torch.optim.lr_scheduler.ReduceLROnPlateau.
struct ReduceLROnPlateauOptions {
  enum class Mode { min, max };
  enum class ThresholdMode { rel, abs };
  Mode mode = Mode::min;                              ///< whether lower (min) or higher (max) metrics are better
  double factor = 0.1;                                ///< factor of the rate in a reduction
  std::int64_t patience = 10;                         ///< consecutive epochs without improvement before a reduction
  double threshold = 1e-4;                            ///< least improvement that counts
  ThresholdMode threshold_mode = ThresholdMode::rel;  ///< threshold is a fraction of the best metric, or a difference
  std::int64_t cooldown = 0;                          ///< epochs after a reduction that are not counted
  PerGroup min_lr = 0;                                ///< the lowest rate
  double eps = 1e-8;                                  ///< smaller reductions are not made
};

/// Reduces the learning rates if a metric has stopped improving (torch.optim.lr_scheduler.ReduceLROnPlateau).
///
/// The optimizer must outlive the schedule.
///
///     optim::lr_scheduler::ReduceLROnPlateau schedule(sgd, {.factor = 0.5, .patience = 3});
///     for (int epoch = 0; epoch < 90; ++epoch) schedule.step(train_and_validate(model, sgd));
class ReduceLROnPlateau {
 public:
  /// Throws ValueError, naming the option, unless factor is in (0, 1) and the others are at least 0.
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});

  /// Takes the metric of an epoch, and reduces the rates if it is time. NaN is no improvement.
  /// Throws ValueError if a group was added to the optimizer, and min_lr has a value for each of the old groups.
  /// Throws CaptureError if a step is being captured, because a replay does not run host code.
  void step(double metric);
  /// Returns the rates after the last step, by group.
  const std::vector<double>& get_last_lr() const { return last_lrs_; }

  /// Returns the state. Options are not in it: give them to the constructor. Rates are in the optimizer's state.
  StateDict state_dict() const;
  /// Restores a state.
  /// Throws ValueError, naming what is missing or unexpected, if the names do not match. Nothing has changed then.
  void load_state_dict(const StateDict& state);

 private:
  bool is_better(double metric) const;
  void reduce();
  void note_lrs();

  Optimizer& optimizer_;
  ReduceLROnPlateauOptions options_;
  std::vector<double> min_lrs_, last_lrs_;  // by group
  double best_;
  std::int64_t last_epoch_ = 0, bad_epochs_ = 0, cooldown_ = 0;
};

}  // namespace bytetape::optim::lr_scheduler
