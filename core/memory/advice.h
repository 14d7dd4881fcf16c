#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// The effect of checkpointing some modules in a step. The activations of each are freed after its forward and
/// recomputed before its backward.
struct Advice {
  std::vector<std::string> modules;  ///< paths on the ledger, as nn::checkpoint_modules takes them
  std::size_t peak = 0;              ///< peak allocated bytes of the step as recorded
  std::size_t peak_then = 0;         ///< peak allocated bytes with these modules checkpointed
  /// The forward time of these modules as a fraction of the step's forward time: the time that recomputation adds. None
  /// on a meta device, where kernels do not run, and for a GPU without device times.
  std::optional<double> forward_time = 0;
  /// The same time, in nanoseconds: of the host, or of a GPU.
  std::optional<std::uint64_t> added_time = 0;
  /// For example "checkpoint net.layer1, net.layer2: peak 1.75 GiB → 1.35 GiB (-23 %), +12.3 ms a step (18 % of
  /// forward)". The time is left out if it is not known.
  std::string text() const;
};

/// Returns checkpoints that would lower the peak of the device's training step with the highest peak.
///
/// Each module whose checkpoint lowers the peak by 1 % or more is listed. So is a greedy set: it starts from the best
/// module, and adds the one that lowers the peak most while that is 1 % or more. The lowest peak comes first. If peaks
/// are equal, the one that takes less time does.
///
/// Levels are recomputed from the recording, event by event. A module may run several times in the step. The real peak
/// is at most `peak_then` if blocks have the recorded sizes, because unknowns are assumed to be worst. Tensors that a
/// module uses besides its inputs, or keeps in members, are not counted. On a GPU, times are device times.
std::vector<Advice> advise(const Log& log, const DeviceLog& device);

/// Returns sentences about modules that hold 1 % or more of that step's peak and that advise() cannot assess: modules
/// whose functions do not return nn::call(...), and work under SaveOnCpu.
std::vector<std::string> why_not_advised(const Log& log, const DeviceLog& device);

/// Returns advice for each device: sentences that begin with its name, each perhaps followed by a line of code to copy.
/// Those with code come first. Otherwise advice on a request that ended the run comes first, then the best five of
/// advise(), then why_not_advised().
std::vector<std::string> advice_texts(const Log& log);

}  // namespace bytetape::memory
