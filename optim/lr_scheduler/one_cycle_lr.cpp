#include "bytetape/optim/lr_scheduler/one_cycle_lr.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace bytetape::optim::lr_scheduler {
namespace {

std::int64_t steps_of(const OneCycleLROptions& o) {
  check<ValueError>(o.total_steps || (o.epochs && o.steps_per_epoch),
                    "OneCycleLR needs total_steps, or epochs and steps_per_epoch");
  const std::int64_t epochs = o.total_steps ? 1 : *o.epochs, each = o.total_steps ? *o.total_steps : *o.steps_per_epoch;
  constexpr std::int64_t most = std::int64_t{1} << 53;  // doubles represent all integers up to it
  check<ValueError>(epochs >= 1 && each >= 1 && epochs <= most / each, "OneCycleLR needs 1 to 2^53 steps, got ", epochs,
                    " times ", each);
  return epochs * each;
}

void check_positive(const char* name, double value) {
  check<ValueError>(value > 0 && std::isfinite(value), "OneCycleLR: ", name, " must be positive and finite, got ",
                    value);
}

void check_momentum(const char* name, double value) {
  check<ValueError>(value >= 0 && value < 1, "OneCycleLR: ", name, " must be from 0 to below 1, got ", value);
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& o)
    : LRScheduler(optimizer), options_(o), total_steps_(steps_of(o)) {
  check<ValueError>(o.pct_start >= 0 && o.pct_start <= 1, "OneCycleLR: pct_start must be from 0 to 1, got ",
                    o.pct_start);
  check_positive("div_factor", o.div_factor);
  check_positive("final_div_factor", o.final_div_factor);
  o.max_lr.of(optimizer, "max_lr");
  o.base_momentum.of(optimizer, "base_momentum");
  o.max_momentum.of(optimizer, "max_momentum");
  const std::size_t groups = optimizer.param_groups().size();
  for (std::size_t g = 0; g < groups; ++g) check_group(g);
  for (std::size_t g = 0; g < groups; ++g) set_base_lr(g, o.max_lr.at(g, "max_lr") / o.div_factor);
  begin();
}

void OneCycleLR::check_group(std::size_t g) const {
  check_positive("max_lr", options_.max_lr.at(g, "max_lr"));
  check_momentum("base_momentum", options_.base_momentum.at(g, "base_momentum"));
  check_momentum("max_momentum", options_.max_momentum.at(g, "max_momentum"));
  const ParamGroup& group = optimizer().param_groups()[g];
  check<ValueError>(!options_.cycle_momentum || group.momentum || group.betas,
                    "OneCycleLR: cycle_momentum needs an optimizer with momentum or betas");
}

double OneCycleLR::initial_lr_of(const ParamGroup&, std::size_t g) const {
  check_group(g);
  return options_.max_lr.at(g, "max_lr") / options_.div_factor;
}

std::vector<OneCycleLR::Phase> OneCycleLR::phases(std::size_t g) const {
  const double max_lr = options_.max_lr.at(g, "max_lr"), base_momentum = options_.base_momentum.at(g, "base_momentum"),
               max_momentum = options_.max_momentum.at(g, "max_momentum");
  const double first = base_lr(g), last = first / options_.final_div_factor, steps = static_cast<double>(total_steps_),
               up = options_.pct_start * steps;
  const Phase rise{up - 1, first, max_lr, max_momentum, base_momentum};
  if (!options_.three_phase) return {rise, {steps - 1, max_lr, last, base_momentum, max_momentum}};
  return {rise,
          {2 * up - 2, max_lr, first, base_momentum, max_momentum},
          {steps - 1, first, last, max_momentum, max_momentum}};
}

double OneCycleLR::annealed(double start, double end, double pct) const {
  if (options_.anneal_strategy == AnnealStrategy::linear) return (end - start) * pct + start;
  return end + (start - end) / 2 * (std::cos(std::numbers::pi * pct) + 1);
}

void OneCycleLR::advance() {
  check<ValueError>(last_epoch() < total_steps_, "OneCycleLR: expected at most ", total_steps_,
                    " steps, which have all been taken");
  LRScheduler::advance();
}

void OneCycleLR::update(ParamGroup& group, std::size_t g) {
  const std::vector<Phase> all = phases(g);
  const auto step = static_cast<double>(last_epoch());
  std::size_t k = 0;
  while (k + 1 < all.size() && step > all[k].end_step) ++k;
  const Phase& phase = all[k];
  const double start_step = k == 0 ? 0 : all[k - 1].end_step, length = phase.end_step - start_step,
               pct =
                   length == 0 ? 1 : std::min((step - start_step) / length, 1.0);  // steps after the last keep its rate
  group.lr = annealed(phase.start_lr, phase.end_lr, pct);
  if (!options_.cycle_momentum) return;
  const double momentum = annealed(phase.start_momentum, phase.end_momentum, pct);
  if (group.betas)
    (*group.betas)[0] = momentum;
  else
    group.momentum = momentum;
}

}  // namespace bytetape::optim::lr_scheduler
