#pragma once
#include <cstddef>
#include <optional>

namespace bytetape::memory {

/// The memory used beyond the segments.
struct Outside {
  std::size_t bytes = 0;              ///< total
  std::optional<std::size_t> others;  ///< bytes of other processes; none if the driver does not say

  friend bool operator==(const Outside&, const Outside&) = default;
};

}  // namespace bytetape::memory
