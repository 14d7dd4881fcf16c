#pragma once
#include <string>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// What checkpoint() of one module would change in a step: what the module makes on its way is freed behind its
/// forward, and made again before its backward.
struct Advice {
  std::string module;         ///< its path on the ledger, which nn::checkpoint_modules takes
  std::size_t peak = 0;       ///< of allocated bytes in the step as it was recorded
  std::size_t peak_then = 0;  ///< with the module checkpointed
  double forward_time = 0;    ///< what its forward took, as a part of the step's: what comes on top
  /// "checkpoint net.layer1: peak -412 MiB (-23 %), +18 % forward time".
  std::string text() const;
};

/// Of the device's training step that holds most, every module whose checkpoint would lower the peak by 1 % or more,
/// the lowest peak first, of equal ones the one that takes least time. From the recording alone: levels are added up
/// anew, event by event, and what cannot be known is taken to be worst: the peak is no lower than it will be. Modules
/// that run more than once in a step are left out, as is what a recording without modules does not tell. Of a GPU,
/// times are those of its host.
std::vector<Advice> advise(const Log& log, const DeviceLog& device);

}  // namespace bytetape::memory
