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
/// first, of equal ones the one that takes least time. Modules may run several times in the step. From the recording
/// alone: levels are added up anew, event by event. The peak is at most `peak_then` where blocks are as large as they
/// were: what cannot be known is taken to be worst. Tensors that a module uses besides its inputs, or keeps in members,
/// are not counted. Of a GPU, times are those of its host.
std::vector<Advice> advise(const Log& log, const DeviceLog& device);

/// Sentences on modules that hold 1 % of that step's peak or more, and that advise() can say nothing about: those whose
/// functions begin with nn::Call, and what runs under SaveOnCpu.
std::vector<std::string> why_not_advised(const Log& log, const DeviceLog& device);

/// The best advice for each device, and why there is none of some modules, in words that begin with the device's name:
/// what write_report(log, path) shows.
std::vector<std::string> advice_texts(const Log& log);

}  // namespace bytetape::memory
