#include "bytetape/optim/clip.h"

#include "bytetape/core/check.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/optim/gradients.h"
#include "bytetape/optim/parameters.h"

namespace bytetape::optim {

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm) {
  const memory::Op<"clip_grad_norm_"> op;
  const memory::PhaseScope phase(memory::Phase::optimizer);
  check<ValueError>(max_norm >= 0, "max_norm must not be negative, got ", max_norm);
  check<ValueError>(sinks_of_parts(parameters).empty(),
                    "the parameters are parts, whose norm is that of one rank only; ",
                    "call clip_grad_norm_() of their dist::Sharded");
  const std::vector<Tensor> gradients = gradients_to_write(parameters);
  if (gradients.empty()) return zeros({}, DType::f32, parameters.empty() ? default_device() : parameters[0].device());
  bool is_wide = false;
  for (const Tensor& g : gradients) is_wide |= g.dtype() == DType::f64;
  const Device device = gradients[0].device();
  Tensor norm = empty({}, is_wide ? DType::f64 : DType::f32, device);
  run_planned<&OptimizerKernels::clip_grad_norm>(device, {written_views(gradients), norm.write(), max_norm});
  note_writes(gradients);
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  const memory::Op<"clip_grad_value_"> op;
  const memory::PhaseScope phase(memory::Phase::optimizer);
  check<ValueError>(clip_value >= 0, "clip_value must not be negative, got ", clip_value);
  const std::vector<Tensor> gradients = gradients_to_write(parameters);
  if (gradients.empty()) return;
  const std::vector<View> views = written_views(gradients);
  run<&OptimizerKernels::clip_grad_value>(gradients[0].device(), views, clip_value);
  note_writes(gradients);
}

}  // namespace bytetape::optim
