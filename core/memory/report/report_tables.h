#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "bytetape/core/memory/log.h"
#include "bytetape/core/memory/peak.h"

namespace bytetape::memory {

/// A device's records as three tables of columns: events, blocks and segments. Each event refers to its block or
/// segment, so that a page need not search for it.
class ReportTables {
 public:
  explicit ReportTables(const std::vector<Record>& records, const std::vector<NewLimit>& limits = {});

  using Column = std::vector<std::uint64_t>;
  struct {
    Column kind, phase, step, thread, by_module, by_op;
    Column elapsed;       ///< nanoseconds since the previous row
    Column role, module;  ///< the block's after the event
    /// The object of the event. For a block, how many blocks ago it was allocated (0 for an alloc). For a segment, its
    /// row. For a step, its number. For a transfer, its bytes. For an out_of_memory, the requested bytes.
    Column target;
  } events;
  struct {
    Column segment;  ///< row of the segment
    Column offset, bytes, requested, op, what;
  } blocks;  ///< a row for each alloc, in order
  struct {
    Column number, bytes;
  } segments;                    ///< a row for each segment_alloc, in order
  PeakFinder peak;               ///< the peak among the rows of `events`
  std::vector<NewLimit> limits;  ///< limits, each from a row of `events` on
  /// The number of records left out because their block or segment was never allocated, or was gone.
  std::uint64_t unmatched = 0;

 private:
  struct Place {
    std::uint32_t segment;
    std::uint64_t offset;
    bool operator==(const Place&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Place& p) const { return (p.segment * 0x9E3779B97F4A7C15u) ^ (p.offset >> 9); }
  };
  /// Returns the row's target. None if its object was never allocated.
  std::optional<std::uint64_t> book(const Record& r);
  std::optional<std::uint64_t> make_block(const Record& r);
  std::optional<std::uint64_t> age_of(const Event& e);
  std::uint64_t make_segment(const Event& e);
  std::optional<std::uint64_t> return_segment(const Event& e);

  std::unordered_map<Place, std::uint64_t, Hash> live_blocks_;      // row, by place
  std::unordered_map<std::uint32_t, std::uint64_t> live_segments_;  // row, by segment number
};

}  // namespace bytetape::memory
