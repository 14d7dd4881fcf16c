#pragma once
#include <cstdint>

namespace bytetape::memory {

/// How an Allocator makes blocks.
enum class AllocationMode : std::uint8_t {
  caching,  ///< pieces of cached segments, best fit: CachingPolicy
  direct,   ///< a segment each, returned at once: DirectPolicy
};

}  // namespace bytetape::memory
