#pragma once
#include <functional>
#include <iosfwd>
#include <string>

namespace bytetape {

/// Writes a file through `write`. A regular file is created or replaced as a whole, or not at all.
/// It is written to `path`.part, flushed to the disk, and renamed, so a crash or power loss leaves the old or the new
/// file. The .part file is removed after an exception. Permissions of the old file are kept, and read-only files are
/// not replaced. Symlinks are followed. Devices and FIFOs are written directly. Of two concurrent writers the second
/// fails.
/// Throws FileError "cannot write <what> to '<path>': <reason>". Exceptions from `write` pass through.
void write_file(const std::string& path, const std::string& what, const std::function<void(std::ostream&)>& write);

/// Throws the FileError that write_file() would throw if it can be foreseen: a missing or read-only folder, or a name
/// that is too long. Opens and changes nothing.
void check_writable(const std::string& path, const std::string& what);

}  // namespace bytetape
