#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/memory/ambient.h"

namespace bytetape::memory {

/// The kind of an event of a block, a segment or the program.
enum class EventKind : std::uint8_t {
  segment_alloc,  ///< a segment of `bytes` was taken from the upstream
  segment_free,   ///< a segment was returned
  alloc,          ///< a block was allocated
  free,           ///< a block was freed
  retag,          ///< a block's role changed from `old_role`, or its module from `old_module`
  step_begin,     ///< a step began; `bytes` is its number
  step_end,       ///< a step ended; `bytes` is its number
  out_of_memory,  ///< a request of `requested` bytes failed
  to_device,      ///< `bytes` were copied to the device, from the host or another device
  to_host,        ///< `bytes` were copied from the device
  wait,           ///< the host waited for the device
  hold,           ///< a tape node saved the block for backward; in recordings only (log.h)
  drop,           ///< a tape node released it; in recordings only
  argument,       ///< a module's call got the block as input `requested`, from 0; in recordings only
  result,         ///< a module's call returned the block as result `requested`, from 0; in recordings only
};

inline constexpr int event_kind_count = 15;
/// Whether only recordings have events of this kind. They do not change the ledger.
bool is_only_recorded(EventKind k);
/// "segment_alloc", "alloc", ...
const char* to_string(EventKind k);

/// An entry of the log. Events have a fixed size and no pointers, so two runs can be compared event by event.
struct Event {
  std::uint64_t offset;     ///< bytes from the segment's start
  std::uint64_t bytes;      ///< rounded
  std::uint64_t requested;  ///< bytes as requested
  std::uint32_t segment;
  std::uint32_t step;  ///< 0 outside any step
  NameId module;       ///< the block's module
  NameId op;           ///< op that allocated the block
  EventKind kind;
  Role role;
  Role old_role;      ///< differs from `role` only in a retag
  Phase phase;        ///< the thread's phase at the event
  NameId old_module;  ///< differs from `module` only in a retag

  friend bool operator==(const Event&, const Event&) = default;
};
static_assert(sizeof(Event) == 48);

/// A number of bytes and its peak.
struct Watermark {
  std::size_t current = 0, peak = 0;
  void add(std::size_t n) {
    current += n;
    if (current > peak) peak = current;
  }
  void sub(std::size_t n) { current -= n; }
};

/// Transfers in one direction between a device and others.
struct Traffic {
  std::uint64_t count = 0, bytes = 0;
};

/// The bytes that one module or op holds in each role.
using RoleBytes = std::array<std::size_t, role_count>;

/// The totals of a device since the start. Peaks are since reset_peaks().
struct Statistics {
  Watermark allocated;                        ///< bytes in allocated blocks, rounded
  Watermark requested;                        ///< the same as requested
  Watermark reserved;                         ///< bytes taken from the upstream
  std::array<Watermark, role_count> by_role;  ///< `allocated` by role
  RoleBytes at_peak{};                        ///< bytes by role at the peak of `allocated`
  std::uint32_t peak_step = 0;                ///< step of the peak; 0 between steps
  Phase peak_phase = Phase::setup;            ///< phase of the peak
  std::uint64_t allocations = 0;              ///< number of allocations
  std::uint64_t upstream_calls = 0;           ///< number of segments taken
  Traffic to_device, to_host;                 ///< transfers
  std::uint64_t waits = 0;                    ///< waits of the host for the device
};

/// A step, or the time between two steps: the flow of its thread, and the device's level during it.
struct StepSummary {
  std::uint32_t step = 0;  ///< 0 between steps
  /// The flow of one phase.
  struct PhaseFlow {
    std::size_t rose = 0;  ///< bytes allocated
    std::size_t fell = 0;  ///< bytes freed
    std::size_t peak = 0;  ///< highest `allocated` during the phase; 0 if nothing happened in it
    friend bool operator==(const PhaseFlow&, const PhaseFlow&) = default;
  };
  std::array<PhaseFlow, phase_count> phases{};  ///< indexed by Phase
  std::size_t before = 0;                       ///< `allocated` at the beginning
  std::size_t after = 0;                        ///< `allocated` at the end, or now
  std::size_t peak = 0;                         ///< the highest `allocated` in between

  /// Whether nothing was allocated or freed.
  bool is_quiet() const { return phases == std::array<PhaseFlow, phase_count>{}; }
};

/// An open step, for end_step().
struct OpenStep {
  std::uint32_t number = 0;
  std::uint64_t id = 0;  ///< unique among the device's steps
};

class Track;

/// The accounts of one device: which bytes are held, by whom, since when. Every operation takes O(1). Not thread-safe;
/// its Allocator holds the lock.
class Ledger {
 public:
  Ledger();

  void on_segment(const Block& b, bool acquired);
  void on_alloc(const Block& b);
  void on_free(const Block& b);
  /// Moves the block's bytes from one role and module to another.
  void on_retag(Block& b, Role role, NameId module);
  void on_out_of_memory(std::size_t requested);
  /// Logs a transfer or a wait under the thread's scope.
  void on_traffic(EventKind kind, std::size_t bytes);
  /// Begins a step of this thread and ends the one that it has open. 0 stands for the last number + 1. Events belong to
  /// the step of their thread, else to the one that has been open longest.
  OpenStep begin_step(std::uint32_t step);
  /// Ends this thread's step. Does nothing if none is open.
  void end_step() { end(own_step()); }
  /// Ends `step`, whichever thread began it. Does nothing if it has ended.
  void end_step(const OpenStep& step);
  /// The number of this thread's open step; 0 if none is open.
  std::uint32_t open_step();

  std::size_t allocated() const { return stats_.allocated.current; }
  std::size_t reserved() const { return stats_.reserved.current; }
  Statistics statistics() const;
  /// The bytes of each name, indexed by NameId. Shorter than the name table if the last names hold nothing.
  std::vector<RoleBytes> by_module() const { return now(modules_); }
  std::vector<RoleBytes> by_op() const { return now(ops_); }
  std::vector<RoleBytes> by_module_at_peak() const { return at_peak(modules_); }
  std::vector<RoleBytes> by_op_at_peak() const { return at_peak(ops_); }
  /// The most bytes that each name held at once, indexed likewise.
  std::vector<std::size_t> most_by_module() const { return most(modules_); }
  std::vector<std::size_t> most_by_op() const { return most(ops_); }
  const std::vector<Event>& events() const { return log_; }
  /// Steps and the times between them, in order. The last one may be open. Times between steps without allocations or
  /// frees are left out.
  std::vector<StepSummary> steps() const;
  /// The number of events that did not fit the log.
  std::uint64_t dropped() const { return dropped_; }
  /// The number of step summaries that did not fit.
  std::uint64_t dropped_steps() const { return dropped_steps_; }

  /// Logs that a tape node saved the block for backward (`begins`), or released it.
  void on_hold(const Block& b, bool begins);
  /// Logs that a module's call got the block (EventKind::argument) or returned it (EventKind::result). `before` is the
  /// number of blocks of this device that the call passed before it.
  void on_passed(const Block& b, EventKind kind, std::uint64_t before);
  /// Tells the recording of a segment that existed when it began, by its first block, and of the allocated blocks in
  /// it.
  void on_found(const Block& first);
  /// Sends events to a recording too. Null stops that.
  void set_track(Track* track) { track_ = track; }

  /// Resets peaks to the current values.
  void reset_peaks();
  /// Clears the log and the step summaries, and sets how many of each are kept. Steps count from 1 again, or on from
  /// those that are still open.
  /// Throws ValueError, and changes nothing, if there is no memory for `capacity`.
  void reset_log(std::size_t capacity);
  static constexpr std::size_t default_log_capacity = std::size_t{1} << 16;

 private:
  /// The bytes of one name. `at_peak` is copied from `now` at the first change after a peak, so no event copies a
  /// table.
  struct Account {
    RoleBytes now{}, at_peak{};
    std::uint64_t peak = 0;  // number of the peak that `at_peak` belongs to
    Watermark held;          // the sum over all roles
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
  /// An open step of a thread, or the time without an open step.
  struct Open {
    std::uint64_t thread = 0;  // thread_number()
    std::uint64_t id = 0;
    StepSummary summary;  // without `after`
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
  std::uint64_t peak_ = 0;   // number of peaks so far
  bool at_peak_now_ = true;  // nothing was freed since the last peak
  Track* track_ = nullptr;
  std::vector<Event> log_;
  std::vector<StepSummary> steps_;
  std::size_t capacity_ = 0;  // of log_ and steps_ each
  std::uint64_t dropped_ = 0, dropped_steps_ = 0;
  std::vector<Open> open_{1};  // open steps in the order in which they began; or the time without steps
  std::uint32_t last_step_ = 0;
  std::uint64_t begun_ = 0;  // number of steps begun
};

}  // namespace bytetape::memory
