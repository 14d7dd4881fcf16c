#include "bytetape/optim/adam.h"

#include <utility>

#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/optimizer.h"

namespace bytetape::optim {
namespace {

void check_beta(const char* name, double beta) {
  check<ValueError>(beta >= 0 && beta < 1, name, " must be at least 0 and below 1, got ", beta);
}

template <class Options>
ParamGroup defaults(const Options& o) {
  return {.lr = o.lr, .betas = o.betas, .eps = o.eps, .weight_decay = o.weight_decay};
}

}  // namespace

AdamBase::AdamBase(std::vector<ParamGroup> groups, const ParamGroup& defaults, std::string_view name, bool decoupled)
    : Optimizer(std::move(groups), defaults, name), decoupled_(decoupled), averages_(parameters().size()) {
  check_groups();
}

void AdamBase::check_options(const ParamGroup& g) const {
  check_beta("betas[0]", (*g.betas)[0]);
  check_beta("betas[1]", (*g.betas)[1]);
  check_not_negative("eps", *g.eps);
  check_not_negative("weight_decay", *g.weight_decay);
}

void AdamBase::prepare(const std::vector<Tensor>& gradients) {
  slots_.clear();
  for (const std::size_t i : moved()) {
    const Tensor& p = parameters()[i];
    auto& [exp_avg, exp_avg_sq] = averages_[i];
    for (Tensor* average : {&exp_avg, &exp_avg_sq}) {
      if (!average->defined()) {
        *average = new_state(p);
        run<&CopyKernels::fill>(p.device(), Scalar(0), average->write());
      }
      check_state(*average, p);
    }
    slots_.push_back({slot(i, gradients[i]), exp_avg.write(), exp_avg_sq.write()});
  }
}

void AdamBase::set_step_params() {
  step_params_.clear();
  const ParamGroup* of = nullptr;  // group of the last step params, which its next parameter reuses
  for (const std::size_t i : moved()) {
    const ParamGroup& g = group(i);
    if (of != &g || step_params_.back().step != steps(i)) {
      const double lr = *g.lr, decay = *g.weight_decay;
      const AdamStepParams step_params{.lr = lr,
                                       .beta1 = (*g.betas)[0],
                                       .beta2 = (*g.betas)[1],
                                       .eps = *g.eps,
                                       .weight_decay = decoupled_ ? 0 : decay,
                                       .keep = decoupled_ ? 1 - lr * decay : 1};
      step_params_.push_back(at_step(step_params, steps(i)));
      of = &g;
    } else {
      step_params_.push_back(step_params_.back());
    }
  }
}

void AdamBase::launch() {
  run<&OptimizerKernels::adam>(parameters()[0].device(), slots_,
                               AdamParams{step_params_, static_cast<const AdamStepParams*>(replay_params()),
                                          found_inf(), faults_seen(), late()});
}

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& o)
    : Adam(std::vector<ParamGroup>{{.params = std::move(parameters)}}, o) {}
Adam::Adam(std::vector<ParamGroup> groups, const AdamOptions& o)
    : AdamBase(std::move(groups), defaults(o), "adam", false) {}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& o)
    : AdamW(std::vector<ParamGroup>{{.params = std::move(parameters)}}, o) {}
AdamW::AdamW(std::vector<ParamGroup> groups, const AdamWOptions& o)
    : AdamBase(std::move(groups), defaults(o), "adamw", true) {}

}  // namespace bytetape::optim
