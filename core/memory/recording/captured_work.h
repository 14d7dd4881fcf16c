#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/ledger/scope_ids.h"
#include "bytetape/core/memory/work.h"
#include "bytetape/core/memory/work_count.h"

namespace bytetape::memory {

/// The kernels that a count adds up: those of a device, module, op, phase and precision.
struct WorkKey {
  Device device;
  NameId module = 0, op = 0;
  Phase phase = Phase::setup;
  Precision precision = Precision::f32;

  bool operator<(const WorkKey& other) const;
};
struct WorkSum {
  std::uint32_t launches = 0;
  std::uint64_t flop = 0, bytes = 0;

  void operator+=(const WorkSum& other);
};
using WorkSums = std::map<WorkKey, WorkSum>;

/// Counts this thread's work into `to` while it lives. `place` is the mode that refers to `to`.
template <class Work, Work* Ambient::*place>
class WorkScope {
 public:
  [[nodiscard]] explicit WorkScope(Work& to) : outer_(std::exchange(ambient.*place, &to)) { ++work_counters; }
  ~WorkScope() {
    --work_counters;
    ambient.*place = outer_;
  }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  Work* const outer_;
};

/// The work of a captured step. A replay launches it without the host's kernels, so it is counted while the step is
/// recorded, whether a Recording runs or not, and again at each replay.
class CapturedWork {
 public:
  explicit CapturedWork(Device device) : device_(device) {}

  /// Counts the captured device's work, instead of for the current step. Kernels of other devices count as usual,
  /// because they run while the step is recorded, and no replay repeats them.
  using Scope = WorkScope<CapturedWork, &Ambient::captured_work>;

  bool is_of(Device device) const { return device == device_; }
  void add(const WorkKey& key, const WorkSum& sum) { sums_[key] += sum; }
  /// Adds the work to the current steps of the recording and of the prediction, if they run.
  void count_replay() const;

 private:
  const Device device_;
  WorkSums sums_;
};

/// The work of predicted steps.
class PredictedWork {
 public:
  /// Counts all work. That of a captured step counts at each replay.
  using Scope = WorkScope<PredictedWork, &Ambient::predicted_work>;

  void begin_step() { steps_.emplace_back(); }
  void add(const WorkKey& key, const WorkSum& sum) { steps_.back()[key] += sum; }
  /// The work of the last `steps` steps on a device, ordered by module, op, phase and precision.
  std::vector<WorkCount> of(Device device, std::size_t steps) const;

 private:
  std::vector<WorkSums> steps_{1};  // the first has the work before the first step
};

}  // namespace bytetape::memory
