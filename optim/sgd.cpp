#include "bytetape/optim/sgd.h"

#include <cmath>
#include <utility>

#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/optimizer.h"

namespace bytetape::optim {

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& options)
    : SGD(std::vector<ParamGroup>{{.params = std::move(parameters)}}, options) {}

SGD::SGD(std::vector<ParamGroup> groups, const SGDOptions& o)
    : Optimizer(std::move(groups),
                {.lr = o.lr,
                 .momentum = o.momentum,
                 .dampening = o.dampening,
                 .weight_decay = o.weight_decay,
                 .nesterov = o.nesterov},
                "sgd"),
      momentum_buffers_(parameters().size()) {
  check_groups();
}

void SGD::check_options(const ParamGroup& g) const {
  check_not_negative("momentum", *g.momentum);
  check_not_negative("weight_decay", *g.weight_decay);
  check<ValueError>(std::isfinite(*g.dampening), "expected a finite dampening, got ", *g.dampening);
  check<ValueError>(!*g.nesterov || (*g.momentum > 0 && *g.dampening == 0),
                    "nesterov needs momentum > 0 and dampening 0, got momentum ", *g.momentum, " and dampening ",
                    *g.dampening);
}

std::function<void()> SGD::replay_check() const {
  std::vector<std::size_t> without;  // parameters without momentum buffers, which replays cannot add
  for (const std::size_t i : moved())
    if (!momentum_buffers_[i].defined()) without.push_back(i);
  return [this, without] {
    for (const std::size_t i : without)
      check<CaptureError>(*group(i).momentum == 0, "momentum is ", *group(i).momentum,
                          ", but was 0 when the step was captured, without momentum buffers: capture it again");
  };
}

void SGD::prepare(const std::vector<Tensor>& gradients) {
  slots_.clear();
  for (const std::size_t i : moved()) {
    const Tensor& p = parameters()[i];
    SgdSlot s{slot(i, gradients[i])};
    Tensor& buffer = momentum_buffers_[i];
    if (!buffer.defined() && *group(i).momentum != 0) {
      buffer = new_state(p);
      if (has_taken_steps(i)) run<&CopyKernels::fill>(p.device(), Scalar(0), buffer.write());
    }
    if (buffer.defined()) {
      check_state(buffer, p);
      s.momentum_buffer = buffer.write();
    }
    slots_.push_back(s);
  }
}

void SGD::set_step_params() {
  step_params_.clear();
  for (const std::size_t i : moved()) {
    const ParamGroup& g = group(i);
    step_params_.push_back({*g.lr, *g.momentum, *g.dampening, *g.weight_decay, *g.nesterov, steps(i)});
  }
}

void SGD::launch() {
  run<&OptimizerKernels::sgd>(
      parameters()[0].device(), slots_,
      SgdParams{step_params_, static_cast<const SgdStepParams*>(replay_params()), found_inf(), faults_seen(), late()});
}

}  // namespace bytetape::optim
