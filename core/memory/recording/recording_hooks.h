#pragma once
#include <atomic>

#include "bytetape/core/memory/ledger/scope_ids.h"

namespace bytetape::memory {

/// Whether a Recording (recording.h) runs, and scopes are to tell it what begins and ends.
inline constinit std::atomic<bool> is_recording{false};
/// Tells it that this thread's scope becomes `inner`, or with `begins` false is no longer, within `outer`.
void note_scope(const ScopeIds& outer, const ScopeIds& inner, bool begins);

}  // namespace bytetape::memory
