#pragma once
#include <cstddef>
#include <optional>

namespace bytetape::memory {

/// What is used of a memory beyond the segments.
struct Outside {
  std::size_t bytes = 0;              ///< in all
  std::optional<std::size_t> others;  ///< other processes' share of that, where the driver tells

  friend bool operator==(const Outside&, const Outside&) = default;
};

}  // namespace bytetape::memory
