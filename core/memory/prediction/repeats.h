#pragma once
#include <cstddef>
#include <vector>

#include "bytetape/core/memory/ledger/snapshot.h"

namespace bytetape::memory {

/// Finds when the steps of a program repeat on one device's memory. Steps may repeat with a period above 1. For
/// example, a tensor that is kept from step to step is made before its predecessor is freed, so the two alternate
/// between places.
class Repeats {
 public:
  /// Takes the snapshot after the program's start, then the one after each step.
  void look(const Snapshot& s);
  /// The period: the smallest p for which each of the last p steps was like the step p before it. 0 if there is none.
  std::size_t period() const;

 private:
  struct End {
    std::ptrdiff_t event = 0;  // index into the log
    std::size_t allocated = 0, reserved = 0;
  };
  std::vector<End> ends_;
  std::vector<std::size_t> in_a_row_;  // by period p: how many last steps in a row were like the step p before
};

}  // namespace bytetape::memory
