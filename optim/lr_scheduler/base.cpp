#include "bytetape/optim/lr_scheduler/base.h"

#include <string>

#include "bytetape/core/device/capture.h"
#include "bytetape/optim/lr_scheduler/state.h"

namespace bytetape::optim::lr_scheduler {
namespace {

std::string value_path(const char* name, std::size_t g) { return std::string(name) + "." + std::to_string(g); }

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (ParamGroup& g : optimizer.param_groups()) {
    if (!g.initial_lr) g.initial_lr = g.lr;
    base_lrs_.push_back(*g.initial_lr);
    last_lrs_.push_back(*g.lr);
  }
}

double LRScheduler::initial_lr_of(const ParamGroup& group, std::size_t) const {
  return group.initial_lr ? *group.initial_lr : *group.lr;
}

// Takes up groups that were added to the optimizer.
void LRScheduler::add_groups() {
  const std::span<ParamGroup> groups = optimizer_.param_groups();
  std::vector<double> initial;
  for (std::size_t g = base_lrs_.size(); g < groups.size(); ++g) initial.push_back(initial_lr_of(groups[g], g));
  for (const double lr : initial) {
    ParamGroup& group = groups[base_lrs_.size()];
    group.initial_lr = lr;
    base_lrs_.push_back(lr);
    last_lrs_.push_back(*group.lr);
  }
}

void LRScheduler::set_base_lr(std::size_t g, double lr) { optimizer_.param_groups()[g].initial_lr = base_lrs_[g] = lr; }

void LRScheduler::step() {
  detail::refuse_in_capture("steps a schedule: step it on the host, after the call");
  add_groups();
  advance();
}

void LRScheduler::begin() {
  last_epoch_ = 0;
  update_all();
}

void LRScheduler::advance() {
  ++last_epoch_;
  update_all();
}

void LRScheduler::update_all() {
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
    ParamGroup& group = optimizer_.param_groups()[g];
    update(group, g);
    last_lrs_[g] = *group.lr;
  }
}

StateDict LRScheduler::own_state() const {
  StateDict state;
  state.numbers["last_epoch"] = last_epoch_;
  const std::span<const ParamGroup> groups = optimizer_.param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {  // also those that the next step takes up
    const bool is_known = g < base_lrs_.size();
    state.numbers[value_path("base_lrs", g)] = is_known ? base_lrs_[g] : initial_lr_of(groups[g], g);
    state.numbers[value_path("last_lr", g)] = is_known ? last_lrs_[g] : *groups[g].lr;
  }
  return state;
}

void LRScheduler::load_state_dict(const StateDict& state) {
  check_names(state, own_state());
  check_values(state);
  load_own(state);
}

void LRScheduler::load_own(const StateDict& state) {
  add_groups();
  last_epoch_ = state.integer("last_epoch");
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
    base_lrs_[g] = state.number(value_path("base_lrs", g));
    last_lrs_[g] = state.number(value_path("last_lr", g));
  }
}

std::vector<double> PerGroup::of(const Optimizer& optimizer, const char* name) const {
  const std::size_t groups = optimizer.param_groups().size();
  check<ValueError>(values_.size() == 1 || values_.size() == groups, "expected one ", name, " or ", groups,
                    ", one for each parameter group, got ", values_.size());
  return values_.size() == 1 ? std::vector<double>(groups, values_[0]) : values_;
}

double PerGroup::at(std::size_t g, const char* name) const {
  if (values_.size() == 1) return values_[0];
  check<ValueError>(g < values_.size(), name, " has ", values_.size(),
                    " values, one for each parameter group, but none for the added group ", g, ": make a new schedule");
  return values_[g];
}

}  // namespace bytetape::optim::lr_scheduler
