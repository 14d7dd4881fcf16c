#include "bytetape/cuda/norm/layer_norm.h"

#include <algorithm>

#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

// Plan::algorithm is the number of blocks. If there are several, a second launch adds their sums for gw and gb. The
// shape alone decides, so that results do not depend on the device or on addresses.
Plan plan_layer_norm_backward(const LayerNormBackwardArgs& a) {
  const std::int64_t rows = a.x.shape[0], n = a.x.shape[1];
  constexpr std::int64_t single = 16384;  // elements up to which a second launch costs more than it saves
  constexpr std::int64_t least = 8192;    // elements that are worth a block
  std::int64_t blocks = 1;
  if (n > 0 && rows > single / n) {
    const std::int64_t most = n <= 256 ? 792 : 264;  // six or two per multiprocessor of a large GPU
    const std::int64_t length = std::max({least / n, std::int64_t{4}, (rows + most - 1) / most});
    blocks = (rows + length - 1) / length;
  }
  const bool shares = blocks > 1 && (a.gw.defined() || a.gb.defined());
  const std::int64_t vectors = !shares ? 0 : a.mean.defined() ? 2 : 1;
  return {.workspace = static_cast<std::size_t>(vectors * blocks * n) * size_of(accumulated(a.x.dtype)),
          .algorithm = blocks};
}

const LayerNormKernels& layer_norm_plans() {
  static const LayerNormKernels all{
      .layer_norm_backward = {plan_layer_norm_backward, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
