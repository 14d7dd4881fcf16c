#include "bytetape/optim/sgd.h"

#include <cmath>
#include <utility>

#include "bytetape/core/dispatch.h"

namespace bytetape::optim {

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& options)
    : Optimizer(std::move(parameters), "sgd"), options_(options), momentum_buffers_(this->parameters().size()) {
  const memory::OpScope op(name());
  set_lr(options.lr);
  check_not_negative("momentum", options.momentum);
  check_not_negative("weight_decay", options.weight_decay);
  check<ValueError>(std::isfinite(options.dampening), "expected a finite dampening, got ", options.dampening);
  check<ValueError>(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
                    "nesterov needs momentum > 0 and dampening 0, got momentum ", options.momentum, " and dampening ",
                    options.dampening);
}

void SGD::step() {
  const Step step(*this);
  const std::vector<Tensor> gradients = this->gradients();
  slots_.clear();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const Tensor& p = parameters()[i];
    SgdSlot slot{p.write(), gradients[i].read(), {}, steps(i) == 0};
    if (options_.momentum != 0) {
      Tensor& buffer = momentum_buffers_[i];
      if (!buffer.defined()) buffer = new_state(p);
      check_state(buffer, p);
      slot.momentum_buffer = buffer.write();
    }
    slots_.push_back(slot);
  }
  run<&Kernels::sgd>(parameters()[0].device(), slots_,
                     SgdParams{lr(), options_.momentum, options_.dampening, options_.weight_decay, options_.nesterov});
  finish_step(gradients);
}

}  // namespace bytetape::optim
