#include "bytetape/core/kernels/gather.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/reduce/sorted_runs.h"

namespace bytetape::cuda {

// A short line costs less to compare than to sort. An op that must not change y after a fault has to see all indices
// before it writes, as a sort does.
bool is_sorted(const ScatterArgs& a) { return a.keeps_on_fault || a.index.shape[a.dim] > 32; }

RunsScratch scratch_of(const ScatterArgs& a, bool adds) { return {a.index.numel(), 0, adds ? 1 : 0, a.y.dtype}; }

template <bool adds>
static Plan plan(const ScatterArgs& args) {
  if (args.index.numel() == 0 || !is_sorted(args)) return {};
  return {scratch_of(args, adds).bytes};
}

const GatherKernels& gather_plans() {
  static const GatherKernels all{
      .scatter = {plan<false>, nullptr},
      .scatter_add = {plan<true>, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
