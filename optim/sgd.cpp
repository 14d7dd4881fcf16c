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

void SGD::prepare(const std::vector<Tensor>& gradients) {
  slots_.clear();
  for (const std::size_t i : moved()) {
    SgdSlot s{slot(i, gradients[i])};
    if (options_.momentum != 0) {
      Tensor& buffer = momentum_buffers_[i];
      if (!buffer.defined()) buffer = new_state(parameters()[i]);
      check_state(buffer, parameters()[i]);
      s.momentum_buffer = buffer.write();
    }
    slots_.push_back(s);
  }
}

void SGD::set_paces() {
  paces_.clear();
  for (const std::size_t i : moved()) paces_.push_back({lr(), steps(i)});
}

void SGD::launch() {
  const SGDOptions& o = options_;
  run<&Kernels::sgd>(parameters()[0].device(), slots_,
                     SgdParams{paces_, o.momentum, o.dampening, o.weight_decay, o.nesterov,
                               static_cast<const SgdPace*>(carried()), found_inf()});
}

}  // namespace bytetape::optim
