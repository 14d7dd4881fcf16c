#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// What checkpoint() of modules would change in a step: what each makes on its way is freed behind its forward, and
/// made again before its backward.
struct Advice {
  std::vector<std::string> modules;  ///< their paths on the ledger, which nn::checkpoint_modules takes
  std::size_t peak = 0;              ///< of allocated bytes in the step as it was recorded
  std::size_t peak_then = 0;         ///< with these checkpointed
  /// What their forward took, as a part of the step's: what comes on top. None of a meta device, where kernels do
  /// nothing.
  std::optional<double> forward_time = 0;
  /// "checkpoint net.layer1, net.layer2: peak -412 MiB (-23 %), +18 % forward time", where that is known.
  std::string text() const;
};

/// Of the device's training step that holds most, every module whose checkpoint would lower the peak by 1 % or more,
/// and the set that comes of adding to the best one whichever lowers it most, as long as that is 1 %; the lowest peak
/// first, of equal ones the one that takes least time. From the recording alone: levels are added up anew, event by
/// event, and what cannot be known is taken to be worst: the peak is no lower than it will be. Modules that run more
/// than once in a step are left out, as is what a recording without modules does not tell. Of a GPU, times are those of
/// its host.
std::vector<Advice> advise(const Log& log, const DeviceLog& device);

/// The best of it for each device, in words that begin with the device's name: what write_report(log, path) shows.
std::vector<std::string> advice_texts(const Log& log);

}  // namespace bytetape::memory
