#include <algorithm>

#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/reduce/sorted_runs.h"

namespace bytetape::cuda {

RunsScratch scratch_of(const IndexSumArgs& a) {
  const std::int64_t slices = a.y.shape[a.dim];
  return {a.index.shape[0], slices, a.y.numel() / std::max<std::int64_t>(slices, 1), a.y.dtype};
}

RunsScratch scratch_of(const IndexWriteArgs& a, bool adds) {
  const std::int64_t slices = std::max<std::int64_t>(a.y.shape[a.dim], 1);
  return {a.index.shape[0], 0, adds ? a.y.numel() / slices : 0, a.y.dtype};
}

namespace {

Plan plan_sum(const IndexSumArgs& args) {
  if (args.y.numel() == 0) return {};
  return {scratch_of(args).bytes};
}
template <bool adds>
Plan plan_write(const IndexWriteArgs& args) {
  return {scratch_of(args, adds).bytes};
}

}  // namespace

const IndexingKernels& indexing_plans() {
  static const IndexingKernels all{
      .index_sum = {plan_sum, nullptr},
      .index_copy = {plan_write<false>, nullptr},
      .index_add = {plan_write<true>, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
