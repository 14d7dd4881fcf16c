// Replaces nccl.cpp in builds without NCCL: nothing connects the ranks for a GPU's memory.
#include "bytetape/core/kernels/collective.h"
#include "bytetape/cuda/collective/rank_faults.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {

const CollectiveKernels& collective_kernels() {
  static const CollectiveKernels all = [] {
    CollectiveKernels kernels = collective_plans();
    kernels.note_fault = note_fault;
    kernels.leave_fault = leave_fault;
    return kernels;
  }();
  return all;
}

}  // namespace bytetape::cuda
