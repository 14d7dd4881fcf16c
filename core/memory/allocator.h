#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/allocator/allocation_mode.h"
#include "bytetape/core/memory/allocator/policies.h"
#include "bytetape/core/memory/allocator/spin_lock.h"
#include "bytetape/core/memory/allocator/unlocked.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/ledger/external.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/snapshot.h"

/// Memory: allocators, their ledgers, recordings, predictions and reports.
namespace bytetape::memory {

class SegmentNumbers;
struct Shortage;

/// The only source of a device's memory: a policy over an upstream, a ledger of every byte, and a hard limit.
/// Thread-safe. Each stream of a GPU has its own policy, so a stream reuses only the blocks that it freed, in the order
/// of its work. All blocks must be deallocated before the allocator is destroyed.
class Allocator {
 public:
  using Mode = AllocationMode;

  /// Takes memory from `upstream` and accounts it to `device`. Backends make allocators. `name` defaults to the
  /// device's name. Recordings do not see an allocator with `is_listed` false.
  Allocator(Device device, std::unique_ptr<Upstream> upstream, Mode mode = Mode::caching, std::string name = {},
            bool is_listed = true);
  ~Allocator();

  /// Returns a block of at least `bytes`, rounded up to `rounding` (0 counts as 1), with `role` and the thread's scope.
  /// Throws OutOfMemory if a second try, after the cache was released, fails too.
  /// Throws the upstream's error if it failed for another reason.
  Block* allocate(std::size_t bytes, Role role);
  /// Returns a block to the cache of the stream that allocated it, or in Mode::direct to the upstream. The caller has
  /// waited there for the work of other streams that used the block; Storage does.
  void deallocate(Block* block) noexcept;
  /// Changes a block's role, or its role and module. O(1). Logs an event if something changes. The caller must own the
  /// block: a freed block cannot be told from its successor, so only Storage calls these.
  void retag(Block* block, Role role);
  void retag(Block* block, Role role, NameId module);
  /// Counts a reference that backward holds to a block. A temporary has the role `saved` while the count is above 0.
  /// Calls come in pairs. The last drop_saved() restores the role, unless the block is about to be freed. `saver` is
  /// stored in the block until that saver drops it.
  void hold_saved(Block* block, const void* saver = nullptr);
  void drop_saved(Block* block, bool about_to_free, const void* saver = nullptr);

  std::uint32_t saved_refs(const Block* block) const;
  /// Records that a module's call got the block (EventKind::argument) or returned it (EventKind::result). `before` is
  /// the number of blocks of this device that the call passed before it.
  void note_passed(const Block& block, EventKind kind, std::uint64_t before);
  /// Moves the saved references of `from` to `to`, a block of the allocator `its`.
  void transfer_saved_refs(Block* from, Allocator& its, Block* to);

  /// Sets the most bytes that may be reserved. The default is the upstream's capacity. If more are reserved now, unused
  /// segments are returned first; blocks in use stay.
  void set_limit(std::size_t bytes);
  /// Returns every unused segment to the upstream.
  void empty_cache();
  /// Switches between caching and one segment for each block.
  /// Throws ValueError if anything is allocated.
  void set_mode(Mode mode);
  Mode mode() const {
    const std::lock_guard lock(mutex_);
    return mode_;
  }

  /// Begins a step of this thread and ends the one that it has open. Use memory::Step instead. 0 stands for the last
  /// number + 1. Returns the number. The step stays open if the thread ends without end_step().
  std::uint32_t begin_step(std::uint32_t step = 0);
  /// Begins a step of this thread.
  /// Throws ValueError if the thread has a step open. The open step goes on.
  OpenStep begin_sole_step(std::uint32_t step = 0);
  /// Ends this thread's step. Does nothing if none is open.
  void end_step();
  /// Ends `step`, whichever thread began it. Does nothing if it has ended.
  void end_step(const OpenStep& step);
  /// Resets peaks to the current values.
  void reset_peaks();
  /// Clears the events and steps, and keeps at most `capacity` of each from now on. Steps count from 1 again, or on
  /// from those that are still open.
  /// Throws ValueError, and changes nothing, if there is no memory for `capacity`.
  void reset_log(std::size_t capacity = Ledger::default_log_capacity);

  /// Opens a pool: segments that serve only threads whose Ambient::pool names it. Use memory::Pool instead.
  Policies& open_pool();
  /// Closes a pool. Each segment returns to the upstream once none of its blocks is allocated.
  void close_pool(Policies& pool);
  /// Allocates all free memory of a pool, block by block, with the role `workspace`.
  std::vector<Block*> take_unused(const Policies& pool);

  /// Sends events to a recording too, beginning with records that rebuild the current state. Null stops that.
  void record_to(Track* track);
  /// Logs a transfer of the device, or a wait for it.
  void note_traffic(EventKind kind, std::size_t bytes);

  /// The module and op that allocated a block. The module may have been retagged since.
  ScopeIds owner_of(const Block* block) const;
  /// The role of a block.
  Role role_of(const Block* block) const;

  Statistics statistics() const;
  /// The memory used beyond the ledger, on a GPU without external(). None if it cannot be measured.
  std::optional<Outside> outside() const;
  /// The memory of the device that tensors use and other libraries own.
  External external() const { return external_.total(); }
  ExternalRanges& external_ranges() { return external_; }
  std::size_t capacity() const { return upstream_.capacity(); }
  std::size_t limit() const;
  /// The name in reports: "cpu", "cuda:0", "pinned:cuda", ...
  const std::string& name() const { return name_; }
  /// A copy of the ledger's totals, tables, steps and events.
  Snapshot snapshot() const;
  /// Copies of the allocated blocks. The order is the same in equal runs.
  std::vector<Block> blocks() const;
  Device device() const { return device_; }

 private:
  std::unique_ptr<Policy> make_policy(bool in_pool);
  void make_policy_here();
  Policy* policy_here() const {
    const Policies& policies = ambient.pool.owner == this ? *ambient.pool.policies : policies_;
    return policies.of(ambient.scope.stream & streams_).get();
  }
  Block* allocate_anew(std::size_t bytes, std::size_t size, Role role);
  Block* try_allocate(std::size_t bytes, std::size_t size);
  void book(Block& b, std::size_t bytes, Role role);
  void return_unused(const Policies& closed_pool);
  void rebook(Block& b, Role role, NameId module);
  std::vector<Block> copy_blocks() const;
  Shortage shortage(std::size_t bytes);
  void complete(Shortage& s, const std::vector<Block>& held) const;

  const Device device_;
  const std::string name_;
  const bool is_listed_;
  const StreamId streams_;  // mask of stream numbers: all bits on a GPU, 0 on the CPU
  Mode mode_;
  mutable std::mutex growing_;  // held to take or return segments, which may wait for the upstream
  mutable SpinLock mutex_;      // guards the members below; locked after growing_
  UnlockedUpstream upstream_;
  Ledger ledger_;
  ExternalRanges external_;
  std::shared_ptr<SegmentNumbers> numbers_;
  Policies policies_;
  std::vector<std::unique_ptr<Policies>> pools_, closed_pools_;
  std::size_t limit_;
};

/// Returns Mode::caching, or Mode::direct if the environment variable BYTETAPE_NO_CACHE is set.
Allocator::Mode mode_from_environment();

}  // namespace bytetape::memory
