#pragma once
#include <cstdint>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// A recording's marks as columns. There is a row for each change of a thread's phase, module or op, with the values
/// from then on.
struct ReportScopes {
  explicit ReportScopes(const std::vector<Mark>& marks);

  using Column = std::vector<std::uint64_t>;
  Column elapsed;  ///< nanoseconds since the previous row
  Column thread, phase, module, op;
  Column begins_op;  ///< 1: the row is the begin of an op; else 0
  Column stage;      ///< the outermost phase: backward even while it recomputes a checkpoint's forward
};

}  // namespace bytetape::memory
