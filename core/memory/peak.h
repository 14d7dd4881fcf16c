#pragma once
#include <cstddef>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// Finds the peak among events: the first moment at which most bytes are allocated. Until the next free, roles and
/// modules that change are the peak's too, as most blocks get theirs right behind their allocation. A Ledger keeps its
/// books of the peak by the same rule.
class PeakFinder {
 public:
  /// `allocated`: the bytes that are allocated before the first event.
  explicit PeakFinder(std::size_t allocated = 0)
      : allocated_(allocated), peak_(allocated), is_at_peak_(allocated > 0) {}

  /// Takes the next event.
  void see(const Event& e);

  std::size_t bytes() const { return peak_; }
  /// How many events come before the alloc that reached the peak.
  std::size_t reached() const { return reached_; }
  /// How many events it takes to know who holds the peak: up to that alloc, or to a retag behind it. 0 where no event
  /// reached it.
  std::size_t end() const { return end_; }

 private:
  std::size_t seen_ = 0, allocated_, peak_, reached_ = 0, end_ = 0;
  bool is_at_peak_;
};

}  // namespace bytetape::memory
