#pragma once
#include <limits>

#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// As torch.optim.lr_scheduler.ReduceLROnPlateau's.
struct ReduceLROnPlateauOptions {
  enum class Mode { min, max };
  enum class ThresholdMode { rel, abs };
  Mode mode = Mode::min;                              ///< whether less or more is better
  double factor = 0.1;                                ///< times the rate
  std::int64_t patience = 10;                         ///< epochs in a row without anything better that are let pass
  double threshold = 1e-4;                            ///< by how much what is better is to be so
  ThresholdMode threshold_mode = ThresholdMode::rel;  ///< whether that is a part of the best, or a difference
  std::int64_t cooldown = 0;                          ///< epochs after a reduction that do not count
  PerGroup min_lr = 0;                                ///< the lowest rate
  double eps = 1e-8;                                  ///< a reduction by less is left out
};

/// Reduces the rates where a metric has not got better for a while (torch.optim.lr_scheduler.ReduceLROnPlateau). Refers
/// to the optimizer, which outlives it.
///
///     optim::lr_scheduler::ReduceLROnPlateau schedule(sgd, {.factor = 0.5, .patience = 3});
///     for (int epoch = 0; epoch < 90; ++epoch) schedule.step(train_and_validate(model, sgd));
class ReduceLROnPlateau {
 public:
  /// Throws ValueError, naming the option, unless factor is in (0, 1) and the others are at least 0.
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});

  /// Takes the metric of an epoch; NaN is not better. Throws CaptureError within a step that is being captured: it is
  /// the host's.
  void step(double metric);
  /// By group, what the last step left.
  const std::vector<double>& get_last_lr() const { return last_lrs_; }

  /// Where it stands; its options are the constructor's, and the rates come with the optimizer's state.
  StateDict state_dict() const;
  /// Goes on from there. Throws ValueError, naming what is missing or unexpected, before anything is changed.
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
