#pragma once
#include <memory>

#include "bytetape/core/kernels/collective.h"

namespace bytetape::dist {

/// Watches a communicator whose run() does not wait for its collectives. If another rank tells a failure, or a
/// collective takes longer than the timeout of init(), aborts it, so that the host does not wait for ever. In the
/// second case also tells the other ranks. The process ends only after its collectives.
void watch(const std::shared_ptr<Communicator>& communicator, int rank);
/// Watches it no longer. It can then be destroyed.
void unwatch(const Communicator& communicator);

}  // namespace bytetape::dist
