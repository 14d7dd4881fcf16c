#include "bytetape/core/memory/allocator/pool.h"

#include "bytetape/core/memory/allocator/policy.h"

namespace bytetape::memory {

Pool::~Pool() {
  for (Block* b : unused_) allocator_.deallocate(b);
  allocator_.close_pool(policies_);
}

bool is_in_pool(const Block* block) { return block && block->policy->is_of_pool(); }

}  // namespace bytetape::memory
