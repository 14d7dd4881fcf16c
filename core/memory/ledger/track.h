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

/// The time of a monotonic clock, in nanoseconds.
std::uint64_t now();

/// Collects the events of one device's ledger for a recording.
class Track {
 public:
  using Sink = std::function<void(std::vector<Record>)>;
  /// `sink` gets the records in order. Locks are held then, including the allocator's unless flush() calls it.
  Track(std::uint64_t start, Sink sink) : start_(start), sink_(std::move(sink)) {}

  void add(const Event& e);
  /// Sends the remaining records to the sink.
  void flush();

 private:
  SpinLock mutex_;
  const std::uint64_t start_;
  const Sink sink_;
  std::vector<Record> records_;
};

/// Collects the scope marks of all threads. The process has one object, which is never destroyed, because a scope may
/// outlive its recording.
class Marks {
 public:
  /// Collects marks from now on. `of` selects the scopes of threads that use these meta allocators; null, those of all
  /// threads that use the process's memory.
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
