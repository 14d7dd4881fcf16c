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

#include "bytetape/core/memory/ledger/track.h"
#include "bytetape/core/memory/recording/memlog.h"

namespace bytetape::memory {

class Allocator;
class MetaAllocators;

/// Gives allocators their tracks, and writes what tracks and marks hold: full ones at once, the rest five times a
/// second, from a thread of its own.
class Recorder {
 public:
  /// Marks are those of the process, or of what runs on these meta allocators.
  Recorder(const std::string& path, const std::string& program, const MetaAllocators* of = nullptr);
  ~Recorder();

  /// Takes down what happens to the allocator from now on, and how it stands.
  void attach(Allocator& a);
  /// No longer: its books are closed.
  void detach(Allocator& a);
  /// Takes down the limit of an allocator, which has a new one. Does nothing if it is not attached.
  void note_limit(const Allocator& a);
  /// What happened so far goes to the file. Throws what went wrong up to now.
  void flush();
  /// Completes the file. Throws likewise. No allocator may be attached any more.
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
  void drain();
  void guarded(const std::function<void()>& write);

  const std::uint64_t start_ = now();
  std::mutex writing_;  // of these; taken before tracks' locks, and those before queue_'s
  LogWriter writer_;
  std::map<const Allocator*, Device> devices_;
  std::uint32_t devices_made_ = 0;
  std::exception_ptr failure_;  // the first; nothing is written after it

  std::mutex waiting_;  // of these
  std::condition_variable wakes_;
  std::vector<Chunk> queue_;
  bool ends_ = false;

  std::thread thread_;
};

/// Makes a recorder the one that runs, as threads tell one alone of their scopes: a recording's, which takes down every
/// allocator that is listed; or, of meta allocators, a prediction's, which takes down those that are attached to it.
/// Throws FileError, or ValueError where one runs already.
std::unique_ptr<Recorder> start_recorder(const std::string& path, const std::string& program,
                                         const MetaAllocators* of = nullptr);
/// Completes its file, once no allocator that is not listed is attached any more. Throws FileError.
void finish_recorder(std::unique_ptr<Recorder> recorder);

}  // namespace bytetape::memory
