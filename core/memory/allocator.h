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
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/snapshot.h"

/// Where the bytes are: allocators, their books, and how to read them.
namespace bytetape::memory {

class SegmentNumbers;
struct Shortage;

/// The one way to memory of a device: a policy over an upstream, a ledger of every byte, a hard limit. Thread-safe.
/// Each stream of a GPU has a policy of its own: what it frees, it alone takes again, in the order of its work. Blocks
/// must all have come back before it is destroyed.
class Allocator {
 public:
  using Mode = AllocationMode;

  /// Takes from `upstream` and books for `device`; a Backend hands it out. `name` is the device's unless given. Where
  /// it is not listed, recordings do not see it.
  Allocator(Device device, std::unique_ptr<Upstream> upstream, Mode mode = Mode::caching, std::string name = {},
            bool is_listed = true);
  ~Allocator();

  /// A block of at least `bytes`, rounded up to `rounding` (0 counts as 1), tagged with `role` and the thread's scope.
  /// Throws OutOfMemory after giving the cache back and trying once more, or what the upstream failed of.
  Block* allocate(std::size_t bytes, Role role);
  /// Takes a block back: into the cache of the stream that took it, or in Mode::direct to the upstream. Work of other
  /// streams with it has been waited for there (Storage does).
  void deallocate(Block* block) noexcept;
  /// O(1), and itself an event. Nothing happens where nothing changes. The caller holds the block; a freed one cannot
  /// be told from its successor, which is why only Storage, which owns its block, calls these.
  void retag(Block* block, Role role);
  void retag(Block* block, Role role, NameId module);
  /// While anybody holds a temporary for backward, its role is `saved`. Calls come in pairs; with the last drop the
  /// role changes back, unless the block is about to be freed anyway. `saver` becomes the block's, until it drops it.
  void hold_saved(Block* block, const void* saver = nullptr);
  void drop_saved(Block* block, bool about_to_free, const void* saver = nullptr);

  std::uint32_t saved_refs(const Block* block) const;
  /// Tells a recording that a call of a module got the block (EventKind::argument) or returned it (result), behind
  /// `before` others of this device.
  void note_passed(const Block& block, EventKind kind, std::uint64_t before);
  /// Who holds `from` for backward holds `to`, of another allocator, in its place.
  void transfer_saved_refs(Block* from, Allocator& its, Block* to);

  /// No more than this is ever reserved. Default: what the upstream has. Below what is reserved now: unused segments go
  /// back first, and what is in use stays.
  void set_limit(std::size_t bytes);
  /// Returns every unused segment to the upstream.
  void empty_cache();
  /// Switches between caching and one segment a block. Throws ValueError while anything is allocated.
  void set_mode(Mode mode);
  Mode mode() const {
    const std::lock_guard lock(mutex_);
    return mode_;
  }

  /// Marks a step of this thread in the log, ending its open one; use memory::Step. 0 stands for the last number + 1.
  /// Returns the number. It stays open where the thread ends without end_step().
  std::uint32_t begin_step(std::uint32_t step = 0);
  /// The same, but throws ValueError where this thread has one open, which goes on.
  OpenStep begin_sole_step(std::uint32_t step = 0);
  /// Nothing happens where this thread has none open.
  void end_step();
  /// Ends that one, whichever thread's it is. Nothing happens where it has ended.
  void end_step(const OpenStep& step);
  /// Peaks start over from what is held now.
  void reset_peaks();
  /// Forgets events and steps so far, counts steps from 1 again (on from those that are still open), and keeps at most
  /// `capacity` of each from now on. Throws ValueError, and changes nothing, where there is no memory for as many.
  void reset_log(std::size_t capacity = Ledger::default_log_capacity);

  /// Segments that only the threads whose Ambient::pool names them take from; use memory::Pool.
  Policies& open_pool();
  /// Its segments go back to the upstream, each once nothing of it is allocated any more.
  void close_pool(Policies& pool);
  /// Allocates what lies unused in a pool, piece by piece, under the role `workspace`.
  std::vector<Block*> take_unused(const Policies& pool);

  /// From now on, what happens goes to a recording too, from records on that rebuild what is held; null: no longer.
  void record_to(Track* track);
  /// Books a transfer of the device or a wait for it.
  void note_traffic(EventKind kind, std::size_t bytes);

  /// Who allocated a block; its module may have been retagged since.
  ScopeIds owner_of(const Block* block) const;
  /// Why a block is held.
  Role role_of(const Block* block) const;

  Statistics statistics() const;
  /// What is used beyond the ledger, where that can be measured.
  std::optional<Outside> outside() const { return upstream_.outside(); }
  std::size_t capacity() const { return upstream_.capacity(); }
  std::size_t limit() const;
  /// What the ledger's reports call it: "cpu", "cuda:0", "pinned:cuda", ...
  const std::string& name() const { return name_; }
  /// A copy of all the books, the log among them.
  Snapshot snapshot() const;
  /// Copies of the blocks that are handed out, in no order that equal runs could not repeat.
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
  const StreamId streams_;  // a mask: what of a stream's number counts here
  Mode mode_;
  mutable std::mutex growing_;  // of who takes segments or gives them back, and so may wait for the upstream
  mutable SpinLock mutex_;      // of all that follows; taken second
  UnlockedUpstream upstream_;
  Ledger ledger_;
  std::shared_ptr<SegmentNumbers> numbers_;
  Policies policies_;
  std::vector<std::unique_ptr<Policies>> pools_, closed_pools_;
  std::size_t limit_;
};

/// Caching unless BYTETAPE_NO_CACHE is set in the environment.
Allocator::Mode mode_from_environment();

}  // namespace bytetape::memory
