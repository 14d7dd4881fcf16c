#include "bytetape/optim/lr_scheduler/chained.h"

#include <algorithm>
#include <string>
#include <utility>

#include "bytetape/optim/lr_scheduler/state.h"

namespace bytetape::optim::lr_scheduler {
namespace {

std::string scheduler_path(std::size_t i) { return "schedulers." + std::to_string(i); }

Optimizer& optimizer_of(const SchedulerList::Schedulers& schedulers) {
  check<ValueError>(!schedulers.empty() && schedulers[0], "ChainedScheduler needs at least one schedule");
  return schedulers[0]->optimizer();
}

}  // namespace

SchedulerList::SchedulerList(Optimizer& optimizer, const Schedulers& schedulers)
    : LRScheduler(optimizer), schedulers_(schedulers) {
  check<ValueError>(!schedulers_.empty(), "expected at least one schedule, got none");
  for (std::size_t i = 0; i < schedulers_.size(); ++i) {
    check<ValueError>(schedulers_[i] != nullptr, "schedule ", i, " of the list is null");
    check<ValueError>(&schedulers_[i]->optimizer() == &optimizer, "schedule ", i,
                      " of the list belongs to another optimizer");
  }
}

// Checks the group with all parts, before any of them takes it up.
double SchedulerList::initial_lr_of(const ParamGroup& group, std::size_t g) const {
  for (const auto& part : schedulers_) part->initial_lr_of(group, g);
  return LRScheduler::initial_lr_of(group, g);
}

void SchedulerList::advance_part(std::size_t i) {
  schedulers_[i]->add_groups();
  schedulers_[i]->advance();
}

void SchedulerList::restart_part(std::size_t i) {
  LRScheduler& part = *schedulers_[i];
  part.add_groups();
  for (std::size_t g = 0; g < optimizer().param_groups().size(); ++g)
    optimizer().param_groups()[g].lr = part.base_lr(g);
  part.begin();
}

StateDict SchedulerList::state_dict() const {
  StateDict state = own_state();
  for (std::size_t i = 0; i < schedulers_.size(); ++i) state.add(scheduler_path(i), schedulers_[i]->state_dict());
  return state;
}

void SchedulerList::load_state_dict(const StateDict& state) {
  check_names(state, state_dict());
  check_values(state);
  load_own(state);
  for (std::size_t i = 0; i < schedulers_.size(); ++i) schedulers_[i]->load_state_dict(state.part(scheduler_path(i)));
}

ChainedScheduler::ChainedScheduler(const Schedulers& schedulers)
    : SchedulerList(optimizer_of(schedulers), schedulers) {}

void ChainedScheduler::begin() {
  for (std::size_t i = 0; i < size(); ++i) begin_part(i);
  LRScheduler::begin();
}

void ChainedScheduler::advance() {
  for (std::size_t i = 0; i < size(); ++i) advance_part(i);
  LRScheduler::advance();
}

SequentialLR::SequentialLR(Optimizer& optimizer, const Schedulers& schedulers, std::vector<std::int64_t> milestones)
    : SchedulerList(optimizer, schedulers), milestones_(std::move(milestones)) {
  check<ValueError>(milestones_.size() + 1 == size(), "SequentialLR needs one milestone fewer than its ", size(),
                    " schedules, got ", milestones_.size());
  check<ValueError>(
      std::is_sorted(milestones_.begin(), milestones_.end()) && (milestones_.empty() || milestones_[0] >= 0),
      "SequentialLR needs milestones in ascending order, from 0 on");
  for (ParamGroup& g : optimizer.param_groups()) g.lr = g.initial_lr;  // the constructors of the parts have changed it
  begin();
}

/// Returns the index of the part that sets the rates of an epoch.
std::size_t SequentialLR::part_of(std::int64_t epoch) const {
  return static_cast<std::size_t>(std::upper_bound(milestones_.begin(), milestones_.end(), epoch) -
                                  milestones_.begin());
}

void SequentialLR::begin() {
  begin_part(part_of(0));
  LRScheduler::begin();
}

void SequentialLR::advance() {
  const std::int64_t epoch = last_epoch() + 1;
  const std::size_t part = part_of(epoch);
  if (part > 0 && milestones_[part - 1] == epoch)
    restart_part(part);
  else
    advance_part(part);
  LRScheduler::advance();
}

}  // namespace bytetape::optim::lr_scheduler
