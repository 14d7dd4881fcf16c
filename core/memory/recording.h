#pragma once
#include <memory>
#include <string>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

class Recorder;

/// Writes what happens to every device's memory to a file, as it happens, while it lives: the events of the ledgers,
/// and beside them the time, the thread, who freed and who saved each block, the tensor that it was made for, and when
/// modules and ops began and ended. docs/memory_formats.md has the format. read_log() reads the file, even if the
/// program was killed: at most the last fifth of a second is missing then.
///
///     memory::Recording recording("run.memlog");
///
/// What is held when it begins comes first. Costs each event a look at the clock and a copy of 72 bytes, and a thread
/// of its own that packs and writes. One at a time.
class Recording {
 public:
  /// `program`: what is run, for whoever reads the file; "" stands for the process's name. Replaces the file. Throws
  /// FileError where it cannot be written, ValueError where a recording runs already.
  [[nodiscard]] explicit Recording(const std::string& path, const std::string& program = {});
  /// Ends it, as finish() does; what went wrong then is not told.
  ~Recording();

  /// Ends it and completes the file. Throws FileError where the disk was full or failed. Does nothing the second time.
  void finish();
  /// Brings what happened so far to the file, which stays open. Throws FileError likewise.
  void flush();
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::unique_ptr<Recorder> recorder_;
};

/// The file of the recording that runs; "" where none does.
std::string recording_path();

/// The recording that runs, as far as it has come; else the last that was finished, as long as its file is there; else
/// what the ledgers of the process keep (log_of). Throws FileError where the recording's file failed.
Log log_so_far();

/// Reads a recording. A file that breaks off gives what is whole of it, and is not `complete`; one that is damaged
/// gives what comes before that, and `damage` says where it is. Throws FileError, which names the place, where it is no
/// recording, or damaged in its first chunk.
Log read_log(const std::string& path);

}  // namespace bytetape::memory
