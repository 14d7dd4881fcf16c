#pragma once
#include <cstddef>
#include <string>

#include "bytetape/core/memory/ledger/snapshot.h"

namespace bytetape::memory {

/// A page of text: the peak and who held it, by role and by module path (the largest `modules` of them; by op where no
/// module was named); and what rose and fell in the first step, a typical one and the last, phase by phase.
std::string summarize(const Snapshot& snapshot, std::size_t modules = 12);

}  // namespace bytetape::memory
