#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

class Recorder;

/// Selects what a Recording has besides host events.
struct RecordingOptions {
  /// Records what GPUs did in every k-th step of each device: in its k-th step of the recording, its 2k-th, and so on.
  /// Each device counts its own steps, so all GPUs record the same ones. 0 (default) records none, which costs nothing.
  std::uint32_t device_times_every = 0;
  /// A file of bench/ceilings, whose content the recording keeps. "" (default): default_ceilings_file(), if it exists.
  std::string ceilings = {};
};

/// Records the memory of every device to a file while the object exists. The file has the ledgers' events, and for each
/// the time and the thread. It also has the tensor that a block was made for, who freed and who saved it, and when
/// modules and ops began and ended. docs/memory_formats.md has the format.
///
/// read_log() reads the file, even if the program was killed. Then at most the last 0.2 s are missing.
///
///     memory::Recording recording("run.memlog");
///
/// The blocks held at the beginning come first. Each event costs a look at the clock and a copy of 72 bytes. A separate
/// thread packs and writes. Only one recording can run at a time.
class Recording {
 public:
  /// Begins the recording and replaces the file. `program` is a title for readers of the file; "" stands for the
  /// process's name.
  /// Throws FileError if the file cannot be written, or the file of ceilings cannot be read.
  /// Throws ValueError if a recording is running.
  /// Throws DeviceError, with the reason, if device times are asked for and cannot be measured.
  [[nodiscard]] explicit Recording(const std::string& path, const std::string& program = {},
                                   const RecordingOptions& options = {});
  /// Ends the recording like finish(), but ignores errors.
  ~Recording();

  /// Ends the recording and completes the file. With device times, waits for the device's work of timed steps. Does
  /// nothing the second time.
  /// Throws FileError if the disk is full or failed.
  /// Throws DeviceError if the device times failed. The file is complete otherwise.
  void finish();
  /// Writes all events so far to the file, which stays open. With device times, waits for the work that timed steps
  /// have launched so far. Throws FileError if the disk is full or failed.
  void flush();
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::unique_ptr<Recorder> recorder_;
};

/// The file of the running recording; "" if none runs.
std::string recording_path();

/// Returns the running recording so far. If none runs, the last finished one, as long as its file exists. Else the logs
/// that the process's ledgers keep (log_of).
/// Throws FileError if the recording's file failed.
Log log_so_far();

/// Reads a recording. If the file breaks off, the whole part is returned and `complete` is false. If it is damaged, the
/// part before the damage is returned and `damage` says where that is.
/// Throws FileError, which names the place, if the file is not a recording or is damaged in its first chunk.
Log read_log(const std::string& path);

}  // namespace bytetape::memory
