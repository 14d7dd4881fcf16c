#pragma once
#include "bytetape/core/device/backend.h"

namespace bytetape::test {

/// For a StandIn: a device that can be recorded. Its kernels are the CPU's; while a step is recorded they are put off,
/// and a replay runs them.
Backend deferred_backend();

}  // namespace bytetape::test
