#include "bytetape/core/kernels/random.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/reduce/sort.h"

namespace bytetape::cuda {

// The sort needs two buffers of keys and two of indices. y is one of the index buffers unless it has gaps.
static Plan plan(const RandpermArgs& args) {
  const std::int64_t n = args.y.numel();
  if (n == 0) return {};
  return {(args.y.is_contiguous() ? 3 : 4) * sort_buffer(n) + sort_scratch(n)};
}

const RandomKernels& random_plans() {
  static const RandomKernels all{
      .randperm = {plan, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
