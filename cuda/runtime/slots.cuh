#pragma once
#include <cstdint>

namespace bytetape::cuda {

/// Returns the slot that `chunk` belongs to: the last one whose first chunk is not above it.
__device__ inline int slot_of(const std::uint32_t* first, int count, std::uint32_t chunk) {
  int at = 0;
  for (int end = count; end - at > 1;) {
    const int middle = (at + end) / 2;
    (first[middle] <= chunk ? at : end) = middle;
  }
  return at;
}

}  // namespace bytetape::cuda
