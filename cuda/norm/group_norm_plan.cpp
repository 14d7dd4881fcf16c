#include "bytetape/core/kernels/group_norm.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

// The workspace has two sums per channel of each image.
static Plan plan(const GroupNormBackwardArgs& a) {
  return {.workspace = 2 * static_cast<std::size_t>(a.x.shape[0] * a.x.shape[1]) * size_of(accumulated(a.x.dtype))};
}

const GroupNormKernels& group_norm_plans() {
  static const GroupNormKernels all{
      .group_norm_backward = {plan, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
