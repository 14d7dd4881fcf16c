#pragma once
#include <bytetape/bytetape.h>

#include <string>

namespace bytetape::examples {

/// All that a run goes on from; with the same options, to the same bits. Schedules are not in it: here a rate depends
/// on where the run stands alone.
struct RunState {
  std::string of;  // whose it is: another run's is refused
  nn::Module& model;
  optim::Optimizer& optimizer;
  NamedTensors sums;   // of the epoch so far
  std::int64_t steps;  // of an epoch
  data::Position reached;

  void save(const std::string& path) const;
  /// Throws ValueError where it is another run's or stands in no epoch, before anything is changed, and what Checkpoint
  /// throws.
  void load(const Checkpoint& saved);
};

}  // namespace bytetape::examples
