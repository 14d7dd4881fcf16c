#pragma once
#include <bytetape/bytetape.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "examples/memory_tour/pytorch.h"

namespace bytetape::examples {

/// The memory statistics of a device at one point of a program.
struct Level {
  std::string label;
  std::size_t allocated = 0, reserved = 0;
  memory::RoleBytes by_role{};
  std::size_t peak = 0;  // peak of allocated bytes since the previous level
  memory::RoleBytes by_role_at_peak{};

  friend bool operator==(const Level&, const Level&) = default;
};

/// Reads the memory statistics of the default device when a program calls it.
class Watch {
 public:
  void operator()(std::string label = {});
  /// Adds a level with the given statistics.
  void operator()(std::string label, const memory::Statistics& books);
  const std::vector<Level>& levels() const { return levels_; }

 private:
  std::vector<Level> levels_;
};

/// A program to measure. It runs on the default device.
using Program = std::function<void(Watch& at)>;

/// The measured and the predicted memory of a program that starts with no memory held and an empty cache.
struct Measurement {
  std::vector<Level> levels, predicted;
  std::vector<memory::Event> events, predicted_events;  // their steps counted from 1
  double seconds = 0;                                   // duration of the fastest of three runs; 0 if not timed
  PyTorchReadings pytorch = {};                         // by level; empty without --pytorch

  bool is_as_predicted() const { return levels == predicted && events == predicted_events; }
};

/// Predicts a program, then measures it.
/// Throws ValueError if the device has memory reserved before.
Measurement measure(const Program& program, bool is_timed);

}  // namespace bytetape::examples
