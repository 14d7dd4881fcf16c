#include "bytetape/core/kernels/indexing.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/reduce/indexing.h"
#include "bytetape/cuda/reduce/sort.h"

namespace bytetape::cuda {

IndexSumScratch::IndexSumScratch(const IndexSumArgs& a) {
  const std::int64_t m = a.index.shape[0];
  buffer = sort_buffer(m);
  starts = 4 * buffer;
  sort = starts + sort_buffer(a.y.shape[a.dim] + 1);
  bytes = sort + (m > 0 ? sort_scratch(m) : 0);
}

static Plan plan(const IndexSumArgs& args) {
  if (args.y.numel() == 0) return {};
  return {IndexSumScratch(args).bytes};
}

const IndexingKernels& indexing_plans() {
  static const IndexingKernels all{
      .index_sum = {plan, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
