#include "bytetape/core/memory/allocator/packing.h"

#include <algorithm>
#include <functional>

#include "bytetape/core/memory/allocator/policy.h"

namespace bytetape::memory {

std::size_t max_fit_if_compacted(std::vector<std::size_t> sizes, std::size_t budget) {
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  SimulatedUpstream upstream(budget);
  std::size_t reserved = 0;
  CachingPolicy policy(
      upstream, [&](const Block& segment, bool acquired) { reserved += acquired ? segment.size : -segment.size; });
  for (const std::size_t size : sizes) {
    if (!policy.allocate(rounded(size), budget - reserved)) return 0;
  }
  return std::max(policy.largest_free(), (budget - reserved) / rounding * rounding);
}

}  // namespace bytetape::memory
