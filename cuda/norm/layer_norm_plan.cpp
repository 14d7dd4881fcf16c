#include <algorithm>

#include "bytetape/core/kernels/layer_norm.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

// The algorithm is the number of blocks, whose shares of gw and gb are added up in a second launch where there are
// several. From the shape alone, so that neither the device nor an address shows in the result.
static Plan plan(const LayerNormBackwardArgs& a) {
  const std::int64_t rows = a.x.shape[0], n = a.x.shape[1];
  constexpr std::int64_t single = 16384;  // elements up to which a second launch costs more than it saves
  constexpr std::int64_t least = 8192;    // that a block is worth starting for
  std::int64_t blocks = 1;
  if (n > 0 && rows > single / n) {
    const std::int64_t most = n <= 256 ? 792 : 264;  // six or two for each processor of a large device
    const std::int64_t length = std::max({least / n, std::int64_t{4}, (rows + most - 1) / most});
    blocks = (rows + length - 1) / length;
  }
  const bool shares = blocks > 1 && (a.gw.defined() || a.gb.defined());
  return {.workspace = shares ? static_cast<std::size_t>(2 * blocks * n) * size_of(accumulated(a.x.dtype)) : 0,
          .algorithm = blocks};
}

const LayerNormKernels& layer_norm_plans() {
  static const LayerNormKernels all{
      .layer_norm_backward = {plan, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
