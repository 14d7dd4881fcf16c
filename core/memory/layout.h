#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// The use of the reserved bytes. The parts sum to `reserved()`.
struct Usage {
  std::size_t requested = 0;  ///< bytes as requested
  std::size_t rounding = 0;   ///< bytes by which blocks are larger than their requests
  std::size_t unused = 0;     ///< bytes in segments without blocks, which can be returned
  std::size_t stranded = 0;   ///< free bytes in segments with blocks

  std::size_t reserved() const { return requested + rounding + unused + stranded; }
};

/// The segments and the bytes used in each, recomputed from events.
class Layout {
 public:
  void apply(const Event& e);
  std::size_t reserved() const { return reserved_; }
  /// O(number of segments).
  Usage usage() const;

 private:
  struct Segment {
    std::size_t bytes = 0, used = 0;
  };
  std::unordered_map<std::uint32_t, Segment> segments_;
  std::size_t requested_ = 0, reserved_ = 0;
};

/// The first moment at which `reserved` was highest, and its use after the request that raised it was served.
struct ReservedPeak {
  Usage usage;
  std::uint32_t step = 0;
  Phase phase = Phase::setup;
};
ReservedPeak reserved_peak(const std::vector<Event>& events);

}  // namespace bytetape::memory
