#pragma once
#include <cstdint>

namespace bytetape::memory {

/// How an Allocator serves blocks.
enum class AllocationMode : std::uint8_t {
  caching,  ///< best fit from cached segments: CachingPolicy
  direct,   ///< a segment for each block, returned at once: DirectPolicy
};

}  // namespace bytetape::memory
