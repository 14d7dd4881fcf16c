#include <algorithm>

#include "bytetape/core/kernels/loss.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

// Plan::algorithm is the number of lanes that share a row, or 0 for a whole block. Without a workspace, one block does
// everything. Otherwise each of workspace / 16 blocks stores its sum and count there, and a second launch adds them. A
// counter that finds the last block would also need a launch, to clear it.
static Plan plan(const CrossEntropyArgs& args) {
  constexpr std::int64_t most_threads = 1024, most_blocks = 4096, block_threads = 256, most_passes = 8,
                         most_elements = 1 << 15;
  constexpr std::size_t bytes_each = 2 * sizeof(double);
  const std::int64_t n = args.logits.shape[0], classes = args.logits.shape[1];
  const bool takes_logits = args.lse.defined();  // log-probabilities: one element per row is read
  const std::int64_t lanes = !takes_logits ? 1 : classes <= 16 ? 4 : classes <= 64 ? 8 : classes <= 1024 ? 32 : 0;
  const bool is_small =
      lanes == 0 ? n <= 1
                 : n <= most_passes * (most_threads / lanes) && n * (takes_logits ? classes : 1) <= most_elements;
  if (is_small) return {0, lanes};
  const std::int64_t rows = lanes == 0 ? 1 : block_threads / lanes;
  const auto blocks = static_cast<std::size_t>(std::min((n + rows - 1) / rows, most_blocks));
  return {blocks * bytes_each, lanes};
}

const LossKernels& loss_plans() {
  static const LossKernels all{
      .cross_entropy = {plan, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
