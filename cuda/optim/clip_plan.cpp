#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/cuda/optim/gradients.h"
#include "bytetape/cuda/optim/muon.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

static Plan plan(const ClipGradNormArgs& args) {
  std::size_t partials = 0;
  for_each_table(args.gradients, [&](const auto& table) { partials += table.blocks(); });
  return {.workspace = partials * sizeof(double)};
}

const OptimizerKernels& optimizer_plans() {
  static const OptimizerKernels all{
      .muon_direction = {plan_muon_direction, nullptr},
      .clip_grad_norm = {plan, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
