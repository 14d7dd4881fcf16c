#pragma once
#include "bytetape/core/memory/ledger/snapshot.h"
#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// The books of a recorded device, written again from its records: what Allocator::snapshot() would have said when the
/// recording ended, had the program begun with it. Totals, peaks and counts are of what was recorded, `capacity`
/// is as it was when it began. Events are those of a Ledger, in its order, without the holds and drops that
/// recordings alone have. Names become the process's.
Snapshot snapshot_of(const Log& log, const DeviceLog& device);

}  // namespace bytetape::memory
