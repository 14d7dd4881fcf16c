#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "bytetape/core/memory/allocator/spin_lock.h"
#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

class MetaAllocators;

/// Nanoseconds of a clock that never goes back.
std::uint64_t now();

/// What one device's ledger tells a recording.
class Track {
 public:
  using Sink = std::function<void(std::vector<Record>)>;
  /// `sink` gets the records in order, with locks held: the allocator's among them, unless flush() calls it.
  Track(std::uint64_t start, Sink sink) : start_(start), sink_(std::move(sink)) {}

  void add(const Event& e);
  /// Gives the sink what it has not got yet.
  void flush();

 private:
  SpinLock mutex_;
  const std::uint64_t start_;
  const Sink sink_;
  std::vector<Record> records_;
};

/// What threads tell of their scopes. The process has one, which never ends: a scope may be left after its recording.
class Marks {
 public:
  /// From now on, scopes that run on these meta allocators count; null: all that run on the process's memory.
  void start(std::uint64_t at, const MetaAllocators* of);
  bool counts_here() const;
  void add(Mark m);
  std::vector<Mark> take();

 private:
  SpinLock mutex_;
  std::uint64_t start_ = 0;
  std::atomic<const MetaAllocators*> of_{nullptr};
  std::vector<Mark> marks_;
};
Marks& marks();

}  // namespace bytetape::memory
