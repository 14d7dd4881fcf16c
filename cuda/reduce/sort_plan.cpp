#include <algorithm>

#include "bytetape/cuda/reduce/sort.h"

namespace bytetape::cuda {

std::size_t sort_buffer(std::int64_t n) { return (8 * static_cast<std::size_t>(n) + 255) / 256 * 256; }

// An upper bound of what cub::DeviceRadixSort needs. For 64-bit keys it makes 8 passes over digits of 8 bits. It sorts
// portions of just under 2^28 elements. For each portion it keeps 256 counts of 8 bytes per pass, and 256 counts of 4
// bytes per tile. Tiles have at least 3840 elements, and this function allows for half of that. The launch checks the
// size.
std::size_t sort_scratch(std::int64_t count) {
  const auto n = static_cast<std::size_t>(count);
  const std::size_t portion = std::size_t{1} << 28, portions = n / portion + 2;
  const std::size_t tiles = std::min(n, portion) / 2048 + 1;
  return 1024 * tiles + 32768 * portions;
}

}  // namespace bytetape::cuda
