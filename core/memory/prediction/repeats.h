#pragma once
#include <cstddef>
#include <vector>

#include "bytetape/core/memory/ledger/snapshot.h"

namespace bytetape::memory {

/// Finds out when the steps of a program do to one device's memory what earlier ones did. They may do so by turns: what
/// is kept from step to step is made before its predecessor goes, and then has its place.
class Repeats {
 public:
  /// The books behind the program's start, then behind each step.
  void look(const Snapshot& s);
  /// The least number of steps of which the last so many were, one by one, like as many before; 0 where there is none.
  std::size_t period() const;

 private:
  struct End {
    std::ptrdiff_t event = 0;  // of the log
    std::size_t allocated = 0, reserved = 0;
  };
  std::vector<End> ends_;
  std::vector<std::size_t> in_a_row_;  // by period: steps up to the last that were like the one so many before
};

}  // namespace bytetape::memory
