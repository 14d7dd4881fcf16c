#pragma once
#include <bytetape/bytetape.h>

#include <string>

namespace bytetape::examples {

/// The state of a run, from which it can be resumed. With the same options, the resumed run has the same bits.
/// Schedules are not included, because the learning rate depends only on `reached`.
struct RunState {
  std::string of;  // identifies the run; a checkpoint of another run is refused
  nn::Module& model;
  optim::Optimizer& optimizer;
  NamedTensors sums;   // loss and score, summed over the epoch so far
  std::int64_t steps;  // per epoch
  data::Position reached;

  void save(const std::string& path) const;
  /// Restores the state from a checkpoint.
  /// Throws ValueError if the checkpoint is another run's or its position is invalid. Nothing has changed then.
  /// Throws what Checkpoint throws.
  void load(const Checkpoint& saved);
};

}  // namespace bytetape::examples
