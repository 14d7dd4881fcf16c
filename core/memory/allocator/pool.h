#pragma once
#include <vector>

#include "bytetape/core/memory/allocator.h"

namespace bytetape::memory {

/// Segments of its own within an allocator: for work that will be repeated at the same addresses, without the host (a
/// captured step). Blocks come from it while a PoolScope names it, and go back to it for good.
class Pool {
 public:
  explicit Pool(Allocator& allocator) : allocator_(allocator), policies_(allocator.open_pool()) {}
  /// Segments go back to the upstream, each once nothing of it is allocated any more.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Allocates what lies unused, until the end: it is neither free nor anybody else's. Role `workspace`, in the name of
  /// the op that is running.
  void hold_unused() { unused_ = allocator_.take_unused(policies_); }
  bool owns(const Block* block) const { return block && policies_.has(block->policy); }

 private:
  friend class PoolScope;
  Allocator& allocator_;
  Policies& policies_;
  std::vector<Block*> unused_;
};

/// What this thread allocates from the pool's allocator comes from the pool.
class PoolScope {
 public:
  [[nodiscard]] explicit PoolScope(const Pool& pool) : previous_(ambient.pool) {
    ambient.pool = {&pool.allocator_, &pool.policies_};
  }
  ~PoolScope() { ambient.pool = previous_; }
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  PoolPlace previous_;
};

/// What this thread allocates comes from no pool: memory that is written before recorded work runs, and so must not be
/// what that work used earlier.
class OutsidePools {
 public:
  [[nodiscard]] OutsidePools() : previous_(ambient.pool) { ambient.pool = {}; }
  ~OutsidePools() { ambient.pool = previous_; }
  OutsidePools(const OutsidePools&) = delete;
  OutsidePools& operator=(const OutsidePools&) = delete;

 private:
  PoolPlace previous_;
};

}  // namespace bytetape::memory
