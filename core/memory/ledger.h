#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytetape/core/memory/block.h"

namespace bytetape::memory {

/// What happened to a block, a segment, or the program.
enum class EventKind : std::uint8_t {
  segment_alloc,  // the upstream gave `bytes`
  segment_free,   // and took them back
  alloc,          // a block was handed out
  free,           // and came back
  retag,          // its role changed from `old_role` to `role`, or its module did
  step_begin,     // `bytes` holds the step's number
  step_end,
  out_of_memory,  // `requested` could not be served
};

/// One line of the log: fixed size, no pointers, so that two runs can be compared record by record.
struct Event {
  std::uint64_t offset;     // of the block in its segment, bytes
  std::uint64_t bytes;      // rounded
  std::uint64_t requested;  // as asked for
  std::uint32_t segment;
  std::uint32_t step;  // 0 outside any step
  NameId module;
  NameId op;
  EventKind kind;
  Role role;
  Role old_role;
  Phase phase;
  NameId old_module;  // on retag

  friend bool operator==(const Event&, const Event&) = default;
};
static_assert(sizeof(Event) == 48);

/// A quantity with its high-water mark, in bytes.
struct Watermark {
  std::size_t current = 0, peak = 0;
  void add(std::size_t n) {
    current += n;
    if (current > peak) peak = current;
  }
  void sub(std::size_t n) { current -= n; }
};

/// Bytes that one module (or one op) holds in each role.
using RoleBytes = std::array<std::size_t, role_count>;

struct Statistics {
  Watermark allocated;  // handed out, rounded
  Watermark requested;  // handed out, as asked for
  Watermark reserved;   // taken from the upstream
  std::array<Watermark, role_count> by_role;
  RoleBytes at_peak{};               // by role, at the moment of peak allocated
  std::uint64_t allocations = 0;     // calls
  std::uint64_t upstream_calls = 0;  // of which the cache could not serve
};

/// One step, or the time between two steps, seen whole.
struct StepSummary {
  std::uint32_t step = 0;
  struct PhaseFlow {
    std::size_t rose = 0, fell = 0;  // bytes allocated and freed
    std::size_t peak = 0;            // highest `allocated` while the phase ran; 0 if nothing happened in it
  };
  std::array<PhaseFlow, phase_count> phases;
  std::size_t before = 0, after = 0, peak = 0;  // allocated bytes
};

/// The books of one device: what is held, by whom, since when. Not locked; its Allocator holds the lock.
class Ledger {
 public:
  void on_segment(const Block& b, bool acquired);
  void on_alloc(Block& b);
  void on_free(const Block& b);
  /// O(1): moves the block's bytes from one role and module to another.
  void on_retag(Block& b, Role role, NameId module);
  void on_out_of_memory(std::size_t requested);
  void begin_step(std::uint32_t step);
  void end_step();

  const Statistics& statistics() const { return stats_; }
  /// Indexed by NameId; shorter than the name table where later names hold nothing.
  const std::vector<RoleBytes>& by_module() const { return by_module_; }
  const std::vector<RoleBytes>& by_op() const { return by_op_; }
  const std::vector<RoleBytes>& by_module_at_peak() const { return peak_is_now_ ? by_module_ : by_module_at_peak_; }
  const std::vector<RoleBytes>& by_op_at_peak() const { return peak_is_now_ ? by_op_ : by_op_at_peak_; }
  const std::vector<Event>& events() const { return log_; }
  const std::vector<StepSummary>& steps() const { return steps_; }
  /// Events that did not fit the log.
  std::uint64_t dropped() const { return dropped_; }
  std::uint32_t step() const { return step_; }

  /// Peaks start over from what is held now.
  void reset_peaks();
  /// Empties the log and the step summaries, and sets how many events and summaries it may hold.
  void reset_log(std::size_t capacity);
  static constexpr std::size_t default_log_capacity = std::size_t{1} << 16;

 private:
  void log(EventKind kind, const Block& b, Role old_role, NameId old_module);
  void move(std::vector<RoleBytes>& table, NameId id, Role role, std::ptrdiff_t bytes);
  void before_fall();
  void note_peak();
  StepSummary::PhaseFlow& flow();

  Statistics stats_;
  std::vector<RoleBytes> by_module_, by_op_, by_module_at_peak_, by_op_at_peak_;
  bool peak_is_now_ = true;  // the peak tables are copied only when the level is about to fall from a new peak
  std::vector<Event> log_;
  std::size_t capacity_ = default_log_capacity;
  std::uint64_t dropped_ = 0;
  std::vector<StepSummary> steps_;
  StepSummary open_;
  std::uint32_t step_ = 0;
};

}  // namespace bytetape::memory
