#include <algorithm>

#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

// Keys twice and indices once, as the sort goes back and forth between two of each and y is the indices' other one;
// where y has gaps, indices twice. Then what cub::DeviceRadixSort asks for beside two buffers of each: for 64-bit keys
// it makes 8 passes over digits of 8 bits. It sorts portions of just under 2^28 elements, keeps 256 counts of 8 bytes a
// pass for each, and 256 of 4 bytes for each tile of one, which has 3840 elements or more: this allows for half of
// that. The launch checks that it is enough.
Plan plan(const RandpermArgs& args) {
  const auto n = static_cast<std::size_t>(args.y.numel());
  if (n == 0) return {};
  const std::size_t buffers = args.y.is_contiguous() ? 3 : 4, buffer = (8 * n + 255) / 256 * 256;
  const std::size_t portion = std::size_t{1} << 28, portions = n / portion + 2;
  const std::size_t tiles = std::min(n, portion) / 2048 + 1;
  return {buffers * buffer + 1024 * tiles + 32768 * portions};
}

}  // namespace bytetape::cuda
