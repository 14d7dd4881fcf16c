#pragma once
#include <iosfwd>
#include <string>

#include "bytetape/core/memory/ledger/snapshot.h"

namespace bytetape::memory {

/// Writes a snapshot as JSON: statistics, who held the peak, every step, every event. Equal runs write
/// equal bytes. docs/memory_formats.md has the format.
void write_timeline(const Snapshot& snapshot, std::ostream& out);
/// The same into a file, which appears or is replaced whole or not at all; a symlink stays, and what it leads to is
/// written. Anything but a regular file (a device, a FIFO) is written straight through. Throws FileError; whatever is
/// thrown, no part of a file stays behind.
void write_timeline(const Snapshot& snapshot, const std::string& path);

}  // namespace bytetape::memory
