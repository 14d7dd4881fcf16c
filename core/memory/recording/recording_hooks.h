#pragma once
#include <atomic>

#include "bytetape/core/memory/ledger/scope_ids.h"

namespace bytetape::memory {

/// Whether a Recording (recording.h) runs, so that scopes report to it.
inline constinit std::atomic<bool> is_recording{false};
/// Reports to the recording that this thread's scope, so far `outer`, becomes `inner`; with `begins` false, that it
/// becomes `outer` again.
void note_scope(const ScopeIds& outer, const ScopeIds& inner, bool begins);

}  // namespace bytetape::memory
