#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bytetape/core/memory/ceilings.h"
#include "bytetape/core/memory/ledger/track.h"
#include "bytetape/core/memory/recording/memlog.h"
#include "bytetape/core/memory/recording/work_counter.h"
#include "bytetape/core/memory/recording/work_tables.h"

namespace bytetape::memory {

class Allocator;
class MetaAllocators;
class StepTimer;
struct RecordingOptions;
struct TimedWork;

/// Gives allocators their tracks, and writes the records and marks to a file from its own thread. Full tracks are
/// written at once, the rest five times a second, with the work of devices that is done.
class Recorder {
 public:
  /// Begins a file. Marks are those of threads that use the process's memory, or the meta allocators `of`. `timer`
  /// times the device's work; null if it is not timed.
  Recorder(const std::string& path, const std::string& program, const MetaAllocators* of = nullptr,
           std::shared_ptr<StepTimer> timer = nullptr);
  ~Recorder();

  /// Writes the devices' ceilings.
  void add_ceilings(const std::vector<Ceilings>& all);
  /// Records the allocator's current state, and its events from now on.
  void attach(Allocator& a);
  /// Stops recording the allocator and writes its final totals.
  void detach(Allocator& a);
  /// Records the new limit of an allocator. Does nothing if it is not attached.
  void note_limit(const Allocator& a);
  /// Waits for the device's work of timed steps, and ends its timing.
  void stop_device_times();
  /// Writes all events so far to the file, and the device's work that arrived.
  /// Throws the first error that occurred so far.
  void flush();
  /// Completes the file. No allocator may be attached.
  /// Throws the first error that occurred.
  void finish();

 private:
  struct Chunk {
    std::uint32_t device;
    std::vector<Record> records;
  };
  struct Device {
    std::uint32_t number;
    std::unique_ptr<Track> track;
  };
  void push(Chunk c);
  void run();
  void poll_timer();
  void drain();
  std::vector<DeviceWork> in_file(const std::vector<TimedWork>& timed) const;
  void write_counts(const std::vector<WorkCounter::Counted>& counted);
  void guarded(const std::function<void()>& write);

  const std::uint64_t start_ = now();
  const std::shared_ptr<StepTimer> timer_;
  std::mutex writing_;  // guards the members below; locked before tracks' locks, and those before waiting_
  LogWriter writer_;
  std::map<const Allocator*, Device> devices_;
  std::uint32_t devices_made_ = 0;
  std::map<std::string, std::uint32_t> numbers_;  // numbers of the last devices of each name
  WorkTables tables_;
  std::exception_ptr failure_;        // the first error; nothing is written after it
  std::exception_ptr timer_failure_;  // of the device times, without which the file is complete

  std::mutex waiting_;  // guards the members below
  std::condition_variable wakes_;
  std::vector<Chunk> queue_;
  bool ends_ = false;

  std::uint64_t polled_ = now();  // when thread_ last called timer_
  std::thread thread_;
};

/// Starts a recorder. Only one can run, because threads report their scopes to one. With `of` null it is a Recording's
/// and records every listed allocator. Else it is a prediction's and records the meta allocators that are attached to
/// it.
/// Throws FileError if the file cannot be written.
/// Throws ValueError if a recorder is running.
/// Throws DeviceError if `options` asks for device times that cannot be measured. The file is not touched then.
std::unique_ptr<Recorder> start_recorder(const std::string& path, const std::string& program, const MetaAllocators* of,
                                         const RecordingOptions& options);
/// Completes the recorder's file. Allocators that are not listed must have been detached.
/// Throws FileError if writing failed.
void finish_recorder(std::unique_ptr<Recorder> recorder);

}  // namespace bytetape::memory
