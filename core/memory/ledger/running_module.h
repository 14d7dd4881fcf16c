#pragma once
#include <memory>

namespace bytetape::memory {

/// Where a module is now, nn's to read; null where it has ended.
using ModuleCell = std::shared_ptr<void*>;
/// That of the module that this thread runs; null outside.
inline constinit thread_local const ModuleCell* running_module = nullptr;

}  // namespace bytetape::memory
