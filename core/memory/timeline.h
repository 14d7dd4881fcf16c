#pragma once
#include <iosfwd>
#include <string>

#include "bytetape/core/memory/ledger/snapshot.h"

namespace bytetape::memory {

/// Writes a snapshot as JSON: statistics, holders of the peak, every step, every event. Equal runs write equal bytes.
/// docs/memory_formats.md has the format.
void write_timeline(const Snapshot& snapshot, std::ostream& out);
/// Writes the timeline to a file, which appears or is replaced whole or not at all. A symlink stays, and its target is
/// written. Anything but a regular file (a device, a FIFO) is written directly.
/// Throws FileError if the file cannot be written. No partial file is left after any exception.
void write_timeline(const Snapshot& snapshot, const std::string& path);

}  // namespace bytetape::memory
