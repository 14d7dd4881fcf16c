// Replaces nccl.cpp in builds without NCCL: nothing connects the ranks for a GPU's memory.
#include "bytetape/core/kernels/collective.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {

const CollectiveKernels& collective_kernels() { return collective_plans(); }

}  // namespace bytetape::cuda
