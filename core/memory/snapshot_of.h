#pragma once
#include "bytetape/core/memory/ledger/snapshot.h"
#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// Recomputes a snapshot of a recorded device from its records: the result of Allocator::snapshot() at the end of the
/// recording, if the program had begun with it. Totals, peaks and counts cover the recording. `capacity` is from its
/// beginning. Events are in the ledger's order, without those that only recordings have. Names become names of this
/// process.
Snapshot snapshot_of(const Log& log, const DeviceLog& device);

}  // namespace bytetape::memory
