// Collectives on a GPU's memory. Predictions plan no workspace, because NCCL has its own buffers. Nothing launches them
// yet: dist::Group refuses tensors on a GPU.
#include "bytetape/core/kernels/collective.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {

static Plan plan(const CollectiveArgs&) { return {}; }

const CollectiveKernels& collective_plans() {
  static const CollectiveKernels all{.exchange = {plan, nullptr}, .combine = nullptr};
  return all;
}

const CollectiveKernels& collective_kernels() { return collective_plans(); }

}  // namespace bytetape::cuda
