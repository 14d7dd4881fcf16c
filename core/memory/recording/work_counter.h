#pragma once
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "bytetape/core/memory/allocator/spin_lock.h"
#include "bytetape/core/memory/recording/captured_work.h"
#include "bytetape/core/memory/recording/open_steps.h"

namespace bytetape::memory {

class MetaAllocators;

/// Adds up the work of each step of a recording (core/memory/work.h). The process has one object, which is never
/// destroyed, because threads may count at any time. Thread-safe.
class WorkCounter {
 public:
  /// A step that ended, and its work.
  struct Counted {
    Device device;  ///< which numbered the step
    std::uint32_t number = 0;
    std::uint64_t time = 0;  ///< of its end, as now() gives it
    WorkSums work;
  };

  /// Counts for steps that begin from now on. Marks::counts_here() defines whose.
  void start();
  void stop();
  void begin(const Allocator& device, std::uint32_t number);
  /// Notes that a step is about to end.
  void end(const Allocator& device, std::uint32_t number);
  /// Drops the open steps of an allocator that is about to be destroyed.
  void forget(const Allocator& device);
  /// Adds work of this thread to the step that it works for (OpenSteps). Work outside of steps is not counted.
  void add(const WorkKey& key, const WorkSum& sum);
  /// Returns the steps that ended since the last call.
  std::vector<Counted> take();

 private:
  SpinLock mutex_;
  bool runs_ = false;
  OpenSteps open_;
  using Step = std::tuple<const Allocator*, std::uint64_t, std::uint32_t>;
  static Step key(const OpenSteps::Open& step) { return {step.device, step.thread, step.number}; }
  void close(const OpenSteps::Open& step);
  std::map<Step, WorkSums> sums_;  // of open steps
  std::vector<Counted> ended_;
};
WorkCounter& work_counter();

}  // namespace bytetape::memory
