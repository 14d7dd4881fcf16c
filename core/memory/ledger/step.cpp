#include "bytetape/core/memory/step.h"

#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/thread_number.h"

namespace bytetape::memory {

Step::Step(Device device, std::uint32_t number)
    : allocator_(allocator(device)),
      step_(allocator_.begin_sole_step(number)),
      thread_(thread_number()),
      around_(ambient.scope) {
  ambient.scope.phase = Phase::forward;
}

Step::~Step() {
  allocator_.end_step(step_);
  if (thread_ == thread_number()) ambient.scope = around_;
}

}  // namespace bytetape::memory
