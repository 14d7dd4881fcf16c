#pragma once
#include <functional>
#include <iosfwd>
#include <string>

namespace bytetape {

/// Writes a file through `write`. A regular file appears, or is replaced, whole or not at all: it is written beside its
/// place under the name `path`.part, which is gone again after any exception, and is on the disk before it takes the
/// place: a crash or a loss of power leaves the old file or the new one. It keeps the
/// permissions of the old one; what is read-only is not replaced. Anything else (a device, a FIFO) is written
/// straight through. Symlinks are followed. Of two writers at once the second fails. Throws FileError "cannot write
/// <what> to '<path>': <reason>", and whatever `write` throws.
void write_file(const std::string& path, const std::string& what, const std::function<void(std::ostream&)>& write);

/// Throws the FileError of write_file() where that can be told beforehand: a missing or read-only folder, a name that
/// is too long. Opens and changes nothing.
void check_writable(const std::string& path, const std::string& what);

}  // namespace bytetape
