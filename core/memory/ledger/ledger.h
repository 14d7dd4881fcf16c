#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/memory/ambient.h"

namespace bytetape::memory {

/// What happened to a block, a segment, or the program.
enum class EventKind : std::uint8_t {
  segment_alloc,  ///< the upstream gave `bytes`
  segment_free,   ///< and took them back
  alloc,          ///< a block was handed out
  free,           ///< and came back
  retag,          ///< its role changed from `old_role` to `role`, or its module did
  step_begin,     ///< `bytes` holds the step's number
  step_end,       ///< likewise
  out_of_memory,  ///< `requested` could not be served
  to_device,      ///< `bytes` went to the device, from the host or another one
  to_host,        ///< `bytes` came from it
  wait,           ///< the host waited for the device
  hold,           ///< a node of the tape began to keep the block for backward; in recordings alone (log.h)
  drop,           ///< and no longer does; likewise
  argument,       ///< a call of a module got the block as an input; `requested` counts those before; likewise
  result,         ///< and returned this one; likewise
};

inline constexpr int event_kind_count = 15;
/// Whether only recordings have events of this kind: they change nothing on the books.
bool is_only_recorded(EventKind k);
/// "segment_alloc", "alloc", ...
const char* to_string(EventKind k);

/// One line of the log: fixed size, no pointers, so that two runs can be compared record by record.
struct Event {
  std::uint64_t offset;     ///< of the block in its segment, bytes
  std::uint64_t bytes;      ///< rounded
  std::uint64_t requested;  ///< as asked for
  std::uint32_t segment;
  std::uint32_t step;  ///< 0 outside any step
  NameId module;       ///< whose the block is
  NameId op;           ///< who allocated it
  EventKind kind;
  Role role;
  Role old_role;      ///< differs from `role` on retag alone
  Phase phase;        ///< of the thread when it happened
  NameId old_module;  ///< differs from `module` on retag alone

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

/// What went one way between a device and others.
struct Traffic {
  std::uint64_t count = 0, bytes = 0;
};

/// Bytes that one module (or one op) holds in each role.
using RoleBytes = std::array<std::size_t, role_count>;

/// The totals of a device since the start; peaks since reset_peaks().
struct Statistics {
  Watermark allocated;                        ///< handed out, rounded
  Watermark requested;                        ///< handed out, as asked for
  Watermark reserved;                         ///< taken from the upstream
  std::array<Watermark, role_count> by_role;  ///< of `allocated`
  RoleBytes at_peak{};                        ///< by role, at the moment of peak allocated
  std::uint32_t peak_step = 0;                ///< when that was: 0 between steps
  Phase peak_phase = Phase::setup;            ///< and in which phase
  std::uint64_t allocations = 0;              ///< calls
  std::uint64_t upstream_calls = 0;           ///< segments that had to be taken for them
  Traffic to_device, to_host;                 ///< transfers
  std::uint64_t waits = 0;                    ///< of the host for the device
};

/// One step, or the time between two steps, seen whole: what its thread did, and the device's level meanwhile.
struct StepSummary {
  std::uint32_t step = 0;  ///< 0 between steps
  /// What one phase of it did.
  struct PhaseFlow {
    std::size_t rose = 0;  ///< bytes allocated
    std::size_t fell = 0;  ///< bytes freed
    std::size_t peak = 0;  ///< highest `allocated` while the phase ran; 0 if nothing happened in it
    friend bool operator==(const PhaseFlow&, const PhaseFlow&) = default;
  };
  std::array<PhaseFlow, phase_count> phases{};  ///< indexed by Phase
  std::size_t before = 0;                       ///< `allocated` when it began
  std::size_t after = 0;                        ///< ... when it ended, or now
  std::size_t peak = 0;                         ///< the highest in between

  /// True where nothing was allocated or freed.
  bool is_quiet() const { return phases == std::array<PhaseFlow, phase_count>{}; }
};

/// A step that was opened, for whoever ends it.
struct OpenStep {
  std::uint32_t number = 0;
  std::uint64_t id = 0;  ///< no other step of the device ever has it
};

class Track;

/// The books of one device: what is held, by whom, since when. Every entry is O(1). Not locked; its Allocator holds the
/// lock.
class Ledger {
 public:
  Ledger();

  void on_segment(const Block& b, bool acquired);
  void on_alloc(const Block& b);
  void on_free(const Block& b);
  /// Moves the block's bytes from one role and module to another.
  void on_retag(Block& b, Role role, NameId module);
  void on_out_of_memory(std::size_t requested);
  /// A transfer or a wait, by the thread's scope.
  void on_traffic(EventKind kind, std::size_t bytes);
  /// Opens a step of this thread, closing its open one. Number 0 stands for the last one's number + 1. What happens is
  /// booked to the thread's own step, or to the one that has been open longest.
  OpenStep begin_step(std::uint32_t step);
  /// Closes this thread's. Nothing happens where it has none open.
  void end_step() { end(own_step()); }
  /// Closes that one, whichever thread's it is. Nothing happens where it is closed already.
  void end_step(const OpenStep& step);
  /// The number of this thread's open step; 0 where it has none.
  std::uint32_t open_step();

  std::size_t allocated() const { return stats_.allocated.current; }
  std::size_t reserved() const { return stats_.reserved.current; }
  Statistics statistics() const;
  /// What each name holds, indexed by NameId; shorter than the name table where later names hold nothing.
  std::vector<RoleBytes> by_module() const { return now(modules_); }
  std::vector<RoleBytes> by_op() const { return now(ops_); }
  std::vector<RoleBytes> by_module_at_peak() const { return at_peak(modules_); }
  std::vector<RoleBytes> by_op_at_peak() const { return at_peak(ops_); }
  /// The most that each name ever held at once; indexed alike.
  std::vector<std::size_t> most_by_module() const { return most(modules_); }
  std::vector<std::size_t> most_by_op() const { return most(ops_); }
  const std::vector<Event>& events() const { return log_; }
  /// Steps and the times between them, in order, the one that is still open last; without those in which nothing moved
  /// between steps.
  std::vector<StepSummary> steps() const;
  /// Events that did not fit the log.
  std::uint64_t dropped() const { return dropped_; }
  /// Step summaries that did not.
  std::uint64_t dropped_steps() const { return dropped_steps_; }

  /// A node began or ceased to keep the block for backward.
  void on_hold(const Block& b, bool begins);
  /// A call of a module got the block (EventKind::argument) or returned it (result), behind `before` others.
  void on_passed(const Block& b, EventKind kind, std::uint64_t before);
  /// A segment that was there when a recording began, by its first block, and what is in use of it: to the recording.
  void on_found(const Block& first);
  /// From now on, what is logged goes to a recording too; null: no longer.
  void set_track(Track* track) { track_ = track; }

  /// Peaks start over from what is held now.
  void reset_peaks();
  /// Empties the log and the step summaries, sets how many of each may be held, and counts steps from 1 again (on
  /// from those that are still open). Throws ValueError, and changes nothing, where there is no memory for as many.
  void reset_log(std::size_t capacity);
  static constexpr std::size_t default_log_capacity = std::size_t{1} << 16;

 private:
  /// What one name holds. What it held at the peak is set aside when the first change after that peak touches it, so no
  /// event ever copies a table.
  struct Account {
    RoleBytes now{}, at_peak{};
    std::uint64_t peak = 0;  // the peak that at_peak was set aside for
    Watermark held;          // in all roles
  };

  Account& account(std::vector<Account>& accounts, NameId id);
  void book(NameId module, NameId op, Role role, std::size_t change);
  void add(Account& a, Role role, std::size_t change);
  const RoleBytes& at_peak(const Account& a) const;
  std::vector<RoleBytes> now(const std::vector<Account>& accounts) const;
  std::vector<RoleBytes> at_peak(const std::vector<Account>& accounts) const;
  std::vector<std::size_t> most(const std::vector<Account>& accounts) const;
  void check_sums() const;
  void start_peak();
  Event event(EventKind kind, const Block& b, Role old_role, NameId old_module, std::uint32_t step) const;
  void log(EventKind kind, const Block& b, Role old_role, NameId old_module) {
    log(kind, b, old_role, old_module, current().step);
  }
  void log(EventKind kind, const Block& b, Role old_role, NameId old_module, std::uint32_t step);
  void log_mark(EventKind kind, std::uint32_t step);
  /// A step of a thread, or the time in which none is open.
  struct Open {
    std::uint64_t thread = 0;  // its number
    std::uint64_t id = 0;
    StepSummary summary;  // but for `after`
  };
  std::vector<Open>::iterator own_step();
  void end(std::vector<Open>::iterator step);
  StepSummary& current();
  StepSummary opened(std::uint32_t step) const;
  StepSummary closed(const StepSummary& open) const;
  void keep(const StepSummary& open);
  StepSummary::PhaseFlow& flow() { return current().phases[static_cast<std::size_t>(ambient.scope.phase)]; }

  Statistics stats_;
  std::vector<Account> modules_, ops_;
  std::uint64_t peak_ = 0;   // counts the peaks
  bool at_peak_now_ = true;  // nothing was freed since the last one
  Track* track_ = nullptr;
  std::vector<Event> log_;
  std::vector<StepSummary> steps_;
  std::size_t capacity_ = 0;  // of both
  std::uint64_t dropped_ = 0, dropped_steps_ = 0;
  std::vector<Open> open_{1};  // steps, in the order of their beginning; or the time without
  std::uint32_t last_step_ = 0;
  std::uint64_t begun_ = 0;  // counts the steps
};

}  // namespace bytetape::memory
