#include "bytetape/optim/lr_scheduler/reduce_lr_on_plateau.h"

#include <algorithm>
#include <string>

#include "bytetape/core/device/capture.h"
#include "bytetape/optim/lr_scheduler/state.h"

namespace bytetape::optim::lr_scheduler {

using Mode = ReduceLROnPlateauOptions::Mode;
using ThresholdMode = ReduceLROnPlateauOptions::ThresholdMode;

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& o)
    : optimizer_(optimizer),
      options_(o),
      min_lrs_(o.min_lr.of(optimizer, "min_lr")),
      best_(o.mode == Mode::min ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity()) {
  check<ValueError>(o.factor > 0 && o.factor < 1, "ReduceLROnPlateau: factor must be above 0 and below 1, got ",
                    o.factor);
  check<ValueError>(o.patience >= 0 && o.cooldown >= 0,
                    "ReduceLROnPlateau: patience and cooldown must not be negative, got ", o.patience, " and ",
                    o.cooldown);
  check<ValueError>(o.threshold >= 0 && o.eps >= 0, "ReduceLROnPlateau: threshold and eps must not be negative, got ",
                    o.threshold, " and ", o.eps);
  for (const double lr : min_lrs_)
    check<ValueError>(lr >= 0, "ReduceLROnPlateau: min_lr must not be negative, got ", lr);
  note_lrs();
}

void ReduceLROnPlateau::step(double metric) {
  detail::refuse_in_capture("steps a schedule: step it on the host, after the call");
  min_lrs_ = options_.min_lr.of(optimizer_, "min_lr");  // groups may have been added
  ++last_epoch_;
  if (is_better(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_ > 0) {
    --cooldown_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ > options_.patience) {
    reduce();
    cooldown_ = options_.cooldown;
    bad_epochs_ = 0;
  }
  note_lrs();
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double by = options_.threshold;
  const bool is_relative = options_.threshold_mode == ThresholdMode::rel;
  if (options_.mode == Mode::min) return metric < (is_relative ? best_ * (1 - by) : best_ - by);
  return metric > (is_relative ? best_ * (by + 1) : best_ + by);
}

void ReduceLROnPlateau::reduce() {
  for (std::size_t g = 0; g < min_lrs_.size(); ++g) {
    ParamGroup& group = optimizer_.param_groups()[g];
    const double lr = std::max(*group.lr * options_.factor, min_lrs_[g]);
    if (*group.lr - lr > options_.eps) group.lr = lr;
  }
}

void ReduceLROnPlateau::note_lrs() {
  last_lrs_.clear();
  for (const ParamGroup& g : optimizer_.param_groups()) last_lrs_.push_back(*g.lr);
}

StateDict ReduceLROnPlateau::state_dict() const {
  StateDict state;
  state.numbers = {
      {"best", best_}, {"cooldown_counter", cooldown_}, {"last_epoch", last_epoch_}, {"num_bad_epochs", bad_epochs_}};
  const std::span<const ParamGroup> groups = optimizer_.param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g)
    state.numbers["last_lr." + std::to_string(g)] = g < last_lrs_.size() ? last_lrs_[g] : *groups[g].lr;
  return state;
}

void ReduceLROnPlateau::load_state_dict(const StateDict& state) {
  check_names(state, state_dict());
  check_values(state);
  best_ = state.number("best");
  cooldown_ = state.integer("cooldown_counter");
  last_epoch_ = state.integer("last_epoch");
  bad_epochs_ = state.integer("num_bad_epochs");
  last_lrs_.resize(optimizer_.param_groups().size());
  for (std::size_t g = 0; g < last_lrs_.size(); ++g) last_lrs_[g] = state.number("last_lr." + std::to_string(g));
}

}  // namespace bytetape::optim::lr_scheduler
