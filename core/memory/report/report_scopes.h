#pragma once
#include <cstdint>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// A recording's marks as columns: a row wherever a thread's phase or module changes, and what they are from then on.
/// So a page can tell of a moment in which nothing was allocated.
struct ReportScopes {
  explicit ReportScopes(const std::vector<Mark>& marks);

  using Column = std::vector<std::uint64_t>;
  Column elapsed;  ///< nanoseconds since the row before
  Column thread, phase, module;
  Column stage;  ///< the outermost phase: backward's, also where it runs a checkpoint's forward again
};

}  // namespace bytetape::memory
