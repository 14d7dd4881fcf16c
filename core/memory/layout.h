#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// How the bytes that are reserved are used; they sum to them.
struct Usage {
  std::size_t requested = 0;  ///< as programs asked for them
  std::size_t rounding = 0;   ///< what blocks are larger than that
  std::size_t unused = 0;     ///< in segments that hold nothing: can be given back
  std::size_t stranded = 0;   ///< between the blocks of the others

  std::size_t reserved() const { return requested + rounding + unused + stranded; }
};

/// The segments and what is held of each, recomputed from events.
class Layout {
 public:
  void apply(const Event& e);
  std::size_t reserved() const { return reserved_; }
  /// Takes time by the number of segments.
  Usage usage() const;

 private:
  struct Segment {
    std::size_t bytes = 0, used = 0;
  };
  std::unordered_map<std::uint32_t, Segment> segments_;
  std::size_t requested_ = 0, reserved_ = 0;
};

/// When `reserved` was first at its highest, and how it was used once the request was served that it rose for.
struct ReservedPeak {
  Usage usage;
  std::uint32_t step = 0;
  Phase phase = Phase::setup;
};
ReservedPeak reserved_peak(const std::vector<Event>& events);

}  // namespace bytetape::memory
