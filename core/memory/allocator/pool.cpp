#include "bytetape/core/memory/allocator/pool.h"

namespace bytetape::memory {

Pool::~Pool() {
  for (Block* b : unused_) allocator_.deallocate(b);
  allocator_.close_pool(policies_);
}

}  // namespace bytetape::memory
