#include <algorithm>

#include "bytetape/cuda/matmul_layout.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

// What cuBLASLt may use for partial products, which it adds where there are too few tiles for all processors; then the
// copies of matrices that have no unit step.
Plan plan(const MatmulArgs& args) {
  constexpr std::size_t most = std::size_t{8} << 20, partials = 16;
  const auto results = static_cast<std::size_t>(args.y.numel()) * std::max(size_of(args.y.dtype), sizeof(float));
  const std::size_t library = std::min(most, aligned(results * partials));
  return {library + copy_bytes(args.a) + copy_bytes(args.b), static_cast<std::int64_t>(library)};
}

}  // namespace bytetape::cuda
