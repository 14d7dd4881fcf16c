#include "bytetape/optim/adam.h"

#include <utility>

#include "bytetape/core/dispatch.h"

namespace bytetape::optim {
namespace {

template <class Options>
AdamParams params_of(const Options& o, bool decoupled) {
  return {o.lr, o.betas[0], o.betas[1], o.eps, o.weight_decay, decoupled};
}

void check_beta(const char* name, double beta) {
  check<ValueError>(beta >= 0 && beta < 1, name, " must be at least 0 and below 1, got ", beta);
}

}  // namespace

AdamBase::AdamBase(std::vector<Tensor> parameters, std::string_view name, const AdamParams& params)
    : Optimizer(std::move(parameters), name), params_(params), states_(this->parameters().size()) {
  const memory::OpScope op(this->name());
  set_lr(params.lr);
  check_beta("betas[0]", params.beta1);
  check_beta("betas[1]", params.beta2);
  check_not_negative("eps", params.eps);
  check_not_negative("weight_decay", params.weight_decay);
}

void AdamBase::step() {
  const Step step(*this);
  const std::vector<Tensor> gradients = this->gradients();
  slots_.clear();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const Tensor& p = parameters()[i];
    auto& [exp_avg, exp_avg_sq] = states_[i];
    for (Tensor* average : {&exp_avg, &exp_avg_sq}) {
      if (!average->defined()) {
        *average = new_state(p);
        run<&Kernels::fill>(p.device(), Scalar(0), average->write());
      }
      check_state(*average, p);
    }
    slots_.push_back({p.write(), gradients[i].read(), exp_avg.write(), exp_avg_sq.write(), steps(i) + 1});
  }
  params_.lr = lr();
  run<&Kernels::adam>(parameters()[0].device(), slots_, params_);
  finish_step(gradients);
}

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options)
    : AdamBase(std::move(parameters), "adam", params_of(options, false)) {}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : AdamBase(std::move(parameters), "adamw", params_of(options, true)) {}

}  // namespace bytetape::optim
