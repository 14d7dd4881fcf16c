#include "bytetape/nn/update_bn.h"

#include "bytetape/core/device/capture.h"

namespace bytetape::nn {

BatchNormUpdate::BatchNormUpdate(Module& model) {
  bytetape::detail::refuse_in_capture("averages batch norm's statistics");
  for (const auto& [path, module] : model.named_modules()) {
    modes_.emplace_back(module, module->is_training());
    auto* const norm = dynamic_cast<BatchNorm*>(module);
    if (norm && norm->running_mean.defined()) norms_.push_back(norm);
  }
  model.train();
  for (BatchNorm* norm : norms_) norm->averaged_ = 0;
}

BatchNormUpdate::~BatchNormUpdate() {
  for (const auto& [module, was_training] : modes_) module->train(was_training);
  for (BatchNorm* norm : norms_) norm->averaged_.reset();
}

}  // namespace bytetape::nn
