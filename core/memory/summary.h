#pragma once
#include <cstddef>
#include <string>

#include "bytetape/core/memory/ledger/snapshot.h"

namespace bytetape::memory {

/// Returns a page of text: the peak and its holders by role and module path, then the bytes allocated and freed by
/// phase in the first, a typical and the last step. `modules` is the most rows of modules. If no module was named, the
/// holders are listed by op.
std::string summarize(const Snapshot& snapshot, std::size_t modules = 12);

}  // namespace bytetape::memory
