#include "bytetape/optim/rmsprop.h"

#include <utility>

#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/optimizer.h"

namespace bytetape::optim {
namespace {

/// Returns the view of a state tensor of p. Makes the tensor, filled with 0, if it is `needed` and undefined.
View kept_view(Tensor& state, const Tensor& p, bool needed) {
  if (!state.defined()) {
    if (!needed) return {};
    state = new_state(p);
    run<&CopyKernels::fill>(p.device(), Scalar(0), state.write());
  }
  check_state(state, p);
  return state.write();
}

}  // namespace

RMSprop::RMSprop(std::vector<Tensor> parameters, const RMSpropOptions& options)
    : RMSprop(std::vector<ParamGroup>{{.params = std::move(parameters)}}, options) {}

RMSprop::RMSprop(std::vector<ParamGroup> groups, const RMSpropOptions& o)
    : Optimizer(std::move(groups),
                {.lr = o.lr,
                 .momentum = o.momentum,
                 .alpha = o.alpha,
                 .eps = o.eps,
                 .weight_decay = o.weight_decay,
                 .centered = o.centered},
                "rmsprop"),
      kept_(parameters().size()) {
  check_groups();
}

void RMSprop::check_options(const ParamGroup& g) const {
  check_not_negative("alpha", *g.alpha);
  check_not_negative("eps", *g.eps);
  check_not_negative("weight_decay", *g.weight_decay);
  check_not_negative("momentum", *g.momentum);
}

std::function<void()> RMSprop::replay_check() const {
  std::vector<std::size_t> no_buffer, no_average;  // parameters without this state, which replays cannot add
  for (const std::size_t i : moved()) {
    if (!kept_[i].momentum_buffer.defined()) no_buffer.push_back(i);
    if (!kept_[i].grad_avg.defined()) no_average.push_back(i);
  }
  return [this, no_buffer, no_average] {
    for (const std::size_t i : no_buffer)
      check<CaptureError>(*group(i).momentum == 0, "momentum is ", *group(i).momentum,
                          ", but was 0 when the step was captured, without momentum buffers: capture it again");
    for (const std::size_t i : no_average)
      check<CaptureError>(!*group(i).centered,
                          "centered is true, but was false when the step was captured, without averages of the "
                          "gradients: capture it again");
  };
}

void RMSprop::prepare(const std::vector<Tensor>& gradients) {
  slots_.clear();
  for (const std::size_t i : moved()) {
    const Tensor& p = parameters()[i];
    const ParamGroup& g = group(i);
    auto& [square_avg, momentum_buffer, grad_avg] = kept_[i];
    slots_.push_back({slot(i, gradients[i]), kept_view(square_avg, p, true),
                      kept_view(momentum_buffer, p, *g.momentum != 0), kept_view(grad_avg, p, *g.centered)});
  }
}

void RMSprop::set_step_params() {
  step_params_.clear();
  for (const std::size_t i : moved()) {
    const ParamGroup& g = group(i);
    step_params_.push_back({*g.lr, *g.alpha, *g.eps, *g.weight_decay, *g.momentum, *g.centered});
  }
}

void RMSprop::launch() {
  run<&OptimizerKernels::rmsprop>(parameters()[0].device(), slots_,
                                  RmspropParams{step_params_, static_cast<const RmspropStepParams*>(replay_params()),
                                                found_inf(), faults_seen(), late()});
}

}  // namespace bytetape::optim
