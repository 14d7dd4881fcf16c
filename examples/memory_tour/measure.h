#pragma once
#include <bytetape/bytetape.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "examples/memory_tour/pytorch.h"

namespace bytetape::examples {

/// What the books of the default device said at a moment of a program.
struct Level {
  std::string label;
  std::size_t allocated = 0, reserved = 0;
  memory::RoleBytes by_role{};
  std::size_t peak = 0;  // the most that was allocated since the level before
  memory::RoleBytes by_role_at_peak{};

  friend bool operator==(const Level&, const Level&) = default;
};

/// Reads the books where a program calls it.
class Watch {
 public:
  void operator()(std::string label = {});
  /// The same of other books.
  void operator()(std::string label, const memory::Statistics& books);
  const std::vector<Level>& levels() const { return levels_; }

 private:
  std::vector<Level> levels_;
};

/// What is measured, on the default device.
using Program = std::function<void(Watch& at)>;

/// What a program did to memory, from nothing held and an empty cache, and what memory::predict said of it before.
struct Measurement {
  std::vector<Level> levels, predicted;
  std::vector<memory::Event> events, predicted_events;  // their steps counted from 1
  double seconds = 0;                                   // the shortest of some runs; 0 unless asked for
  PyTorchReadings pytorch = {};                         // by level; none unless there are some to compare with

  bool is_as_predicted() const { return levels == predicted && events == predicted_events; }
};

/// Throws ValueError where something is held on the device before.
Measurement measure(const Program& program, bool is_timed);

}  // namespace bytetape::examples
