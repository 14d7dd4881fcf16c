#pragma once
#include <vector>

#include "bytetape/core/memory/allocator.h"

namespace bytetape::memory {

/// A set of segments of an allocator for one piece of work that is repeated at the same addresses without the host,
/// such as a captured step. Blocks come from the pool while a PoolScope names it, and always return to it.
class Pool {
 public:
  explicit Pool(Allocator& allocator) : allocator_(allocator), policies_(allocator.open_pool()) {}
  /// Closes the pool. Each segment returns to the upstream once none of its blocks is allocated.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Allocates all free memory of the pool until the pool is destroyed, so that nobody else gets it. The role is
  /// `workspace`, and the op is the running one.
  void hold_unused() { unused_ = allocator_.take_unused(policies_); }
  bool owns(const Block* block) const { return block && policies_.has(block->policy); }

 private:
  friend class PoolScope;
  Allocator& allocator_;
  Policies& policies_;
  std::vector<Block*> unused_;
};

/// Whether a block belongs to a pool, open or closed. Recorded work may have its address.
bool is_in_pool(const Block* block);

/// Makes this thread's allocations from the pool's allocator come from the pool.
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

/// Makes this thread's allocations come from no pool. For memory that is written before recorded work runs, and so must
/// not be memory that this work used earlier.
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
