#include "bytetape/optim/adam.h"

#include <utility>

#include "bytetape/core/dispatch.h"

namespace bytetape::optim {
namespace {

void check_beta(const char* name, double beta) {
  check<ValueError>(beta >= 0 && beta < 1, name, " must be at least 0 and below 1, got ", beta);
}

}  // namespace

AdamBase::AdamBase(std::vector<Tensor> parameters, std::string_view name, const Settings& settings)
    : Optimizer(std::move(parameters), name), settings_(settings), states_(this->parameters().size()) {
  const memory::OpScope op(this->name());
  set_lr(settings.lr);
  check_beta("betas[0]", settings.beta1);
  check_beta("betas[1]", settings.beta2);
  check_not_negative("eps", settings.eps);
  check_not_negative("weight_decay", settings.weight_decay);
}

void AdamBase::prepare(const std::vector<Tensor>& gradients) {
  slots_.clear();
  for (const std::size_t i : moved()) {
    const Tensor& p = parameters()[i];
    auto& [exp_avg, exp_avg_sq] = states_[i];
    for (Tensor* average : {&exp_avg, &exp_avg_sq}) {
      if (!average->defined()) {
        *average = new_state(p);
        run<&Kernels::fill>(p.device(), Scalar(0), average->write());
      }
      check_state(*average, p);
    }
    slots_.push_back({slot(i, gradients[i]), exp_avg.write(), exp_avg_sq.write()});
  }
}

void AdamBase::set_paces() {
  paces_.clear();
  const double keep = settings_.decoupled ? 1 - lr() * settings_.weight_decay : 1;
  std::int64_t step = 0;  // whose pace the last is: as a rule all slots'
  for (const std::size_t i : moved()) {
    if (steps(i) == step) {
      paces_.push_back(paces_.back());
      continue;
    }
    step = steps(i);
    paces_.push_back(adam_pace(lr(), keep, settings_.beta1, settings_.beta2, step));
  }
}

void AdamBase::launch() {
  const Settings& s = settings_;
  run<&Kernels::adam>(parameters()[0].device(), slots_,
                      AdamParams{paces_, s.beta1, s.beta2, s.eps, s.decoupled ? 0 : s.weight_decay,
                                 static_cast<const AdamPace*>(carried()), found_inf()});
}

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& o)
    : AdamBase(std::move(parameters), "adam", {o.lr, o.betas[0], o.betas[1], o.eps, o.weight_decay, false}) {}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& o)
    : AdamBase(std::move(parameters), "adamw", {o.lr, o.betas[0], o.betas[1], o.eps, o.weight_decay, true}) {}

}  // namespace bytetape::optim
