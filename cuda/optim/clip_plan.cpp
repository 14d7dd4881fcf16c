#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/cuda/optim/gradients.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

Plan plan(const ClipGradNormArgs& args) {
  std::size_t partials = 0;
  for_each_table(args.gradients, [&](const auto& table) { partials += table.blocks(); });
  return {.workspace = partials * sizeof(double)};
}

}  // namespace bytetape::cuda
