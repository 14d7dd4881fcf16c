#pragma once
#include <cstddef>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// Finds the peak of a sequence of events: the first moment with the most allocated bytes. Retags after the peak still
/// belong to it until the next free, because most blocks get their role and module right after their allocation. A
/// Ledger uses the same rule.
class PeakFinder {
 public:
  /// `allocated`: the bytes allocated before the first event.
  explicit PeakFinder(std::size_t allocated = 0)
      : allocated_(allocated), peak_(allocated), is_at_peak_(allocated > 0) {}

  /// Adds the next event.
  void see(const Event& e);

  std::size_t bytes() const { return peak_; }
  /// The number of events before the alloc that reached the peak.
  std::size_t reached() const { return reached_; }
  /// The number of events after which the holders of the peak are known: up to that alloc, or to a retag after it. 0 if
  /// no event reached the peak.
  std::size_t end() const { return end_; }

 private:
  std::size_t seen_ = 0, allocated_, peak_, reached_ = 0, end_ = 0;
  bool is_at_peak_;
};

}  // namespace bytetape::memory
