#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "bytetape/core/memory/log.h"
#include "bytetape/core/memory/peak.h"

namespace bytetape::memory {

/// A device's records as three tables of columns: what happened, to which block or segment. So a page need not search
/// for the block that a record means.
class ReportTables {
 public:
  explicit ReportTables(const std::vector<Record>& records, const std::vector<NewLimit>& limits = {});

  using Column = std::vector<std::uint64_t>;
  struct {
    Column kind, phase, step, thread, by_module, by_op;
    Column elapsed;       ///< nanoseconds since the row before
    Column role, module;  ///< of the block, afterwards
    /// Of a block, how many blocks ago it was made (of an alloc 0); of a segment, its row; of a step, its number; of a
    /// transfer its bytes; of an out_of_memory, what was asked for.
    Column target;
  } events;
  struct {
    Column segment;  ///< its row
    Column offset, bytes, requested, op, what;
  } blocks;  ///< one an alloc, in their order
  struct {
    Column number, bytes;
  } segments;                    ///< one a segment_alloc, in their order
  PeakFinder peak;               ///< among the rows
  std::vector<NewLimit> limits;  ///< each from a row on
  /// Records that are in no table: they mean a block or a segment that the records never made, or that is gone.
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
  /// The row's target; none where it means what was never made.
  std::optional<std::uint64_t> book(const Record& r);
  std::optional<std::uint64_t> make_block(const Record& r);
  std::optional<std::uint64_t> age_of(const Event& e);
  std::uint64_t make_segment(const Event& e);
  std::optional<std::uint64_t> return_segment(const Event& e);

  std::unordered_map<Place, std::uint64_t, Hash> live_blocks_;      // row
  std::unordered_map<std::uint32_t, std::uint64_t> live_segments_;  // by number: row
};

}  // namespace bytetape::memory
