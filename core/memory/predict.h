#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/ledger/snapshot.h"
#include "bytetape/core/memory/work_count.h"

namespace bytetape::memory {

/// Options of predict().
struct PredictOptions {
  std::size_t limit = std::numeric_limits<std::size_t>::max();  ///< bytes that may be reserved on the device
  int threads = 0;     ///< CPU threads, as in set_num_threads(), which workspaces depend on; 0: this thread's number
  int min_steps = 3;   ///< least number of steps: a captured step is recorded by its third call
  int max_steps = 16;  ///< most steps, if they do not come to repeat
  /// The file of a Recording of the prediction, for a report or a comparison with a real run. It ends with the last
  /// step, or where memory ran out. Times are those of the prediction. Default: "", none.
  std::string recording = {};
  std::string program = {};  ///< title in the recording; "": the process's name, predicted
  int world_size = 0;        ///< ranks of the group that dist::init() returns; 0: those of this process
  int rank = 0;              ///< the predicted rank of this group
};

/// The memory that a predicted step takes.
struct PredictedStep {
  std::size_t first_event = 0, end_event = 0;  ///< range in Prediction::snapshot's events
  std::size_t allocated = 0;                   ///< peak of allocated bytes
  RoleBytes by_role{};                         ///< of `allocated`, indexed by Role
  std::size_t reserved = 0;                    ///< peak of reserved bytes
};

/// The memory of a program on a device. Events and bytes equal those of a real run, record by record, if that run
/// starts with nothing held, an empty cache and the same number of threads.
struct Prediction {
  Device device;                     ///< the real device
  Snapshot snapshot;                 ///< its ledger after the last step, or where memory ran out
  std::vector<Snapshot> others;      ///< host memory at the end, pinned and pageable, that a GPU's program takes
  std::vector<PredictedStep> steps;  ///< steps taken, including one in which memory ran out
  /// The period of the steps: each of the last `period` steps has the same events as the step `period` before it, and
  /// so have all later ones. Usually 1; more if blocks alternate between places. 0 if steps have not settled. Segment
  /// numbers may differ.
  std::size_t period = 0;
  /// The device's work in the last `period` steps, one row for each module, op, phase and precision. If `period` is 0,
  /// that of the last step. `table` and `device` of each row are 0.
  std::vector<WorkCount> work;
  int threads = 0;                           ///< CPU threads assumed
  std::optional<OutOfMemory> out_of_memory;  ///< set if the limit was too low

  bool is_settled() const { return period > 0; }
  bool fits() const { return !out_of_memory; }
  std::size_t peak_allocated() const { return snapshot.statistics.allocated.peak; }
  std::size_t peak_reserved() const { return snapshot.statistics.reserved.peak; }
};

namespace detail {
/// Calls `step` until the steps settle.
using TakeSteps = std::function<void(const std::function<void()>& step)>;
Prediction predict(Device device, const std::function<void(const TakeSteps&)>& program, const PredictOptions& options);
}  // namespace detail

/// Predicts a program's memory on `device` by running its code on the matching meta device. `device` need not exist.
///
/// fn() builds everything that a training loop has before its first step. The result is called for each step, until
/// steps repeat:
///
///     const memory::Prediction p = memory::predict(Device::cuda(), [] {
///       auto net = std::make_shared<Net>();
///       auto sgd = std::make_shared<optim::SGD>(net->parameters());
///       return [=] {
///         const memory::Step step;
///         const Tensor x = empty({64, 784}, DType::f32, default_device(), memory::Role::input);
///         ...
///       };
///     }, {.limit = std::size_t{8} << 30});
///
/// Device::meta(device) is the default_device() during the prediction. fn() may also return a class with a model, an
/// optimizer and an operator(); the object is neither copied nor moved. If steps differ regularly, such as a smaller
/// last batch, let a step be a whole epoch.
///
/// The prediction has its own meta memory on this thread, empty at first. It neither sees nor changes what the process
/// holds. The default generator is a copy, and the thread's scopes are restored. Modes such as NoGrad and Autocast are
/// those around the call. Threads may predict at the same time. Meta tensors that fn stores outside stay usable.
///
/// If the limit is too low, `out_of_memory` is set and the prediction is not settled.
/// Throws ValueError if max_steps < 1, if threads is invalid, if `rank` is not below `world_size`, or if a recording is
/// asked for while one runs.
/// Throws DeviceError if no such device can exist.
/// Throws CaptureError in a step that is being captured.
/// Throws FileError if the recording cannot be written.
/// Exceptions from fn pass through.
template <std::invocable F>
requires std::invocable < std::invoke_result_t<F&>
& > Prediction predict(Device device, F&& fn, const PredictOptions& options = {}) {
  const auto program = [&](const detail::TakeSteps& take_steps) {
    auto step = fn();
    take_steps([&] { step(); });
  };
  return detail::predict(device, program, options);
}

/// The result of largest().
struct Largest {
  std::optional<std::int64_t> n;  ///< none if `low` does not fit
  Prediction prediction;          ///< for n, or for `low` if n is none
};

namespace detail {
Largest largest(std::int64_t low, std::int64_t high, const std::function<Prediction(std::int64_t)>& predict_for);
}  // namespace detail

/// Finds the largest n from `low` to `high` for which predict(device, [&] { return fn(n); }) fits into `limit` bytes: a
/// batch size, the side of an image, the length of a sequence.
///
/// Tries `low`, then doubles until n does not fit, then bisects. Memory must not decrease as n grows. Larger n are
/// tried after a failure from fragmentation, because they may be laid out differently.
/// Throws ValueError unless 1 <= low <= high, or if `options` has a limit or a recording.
/// Exceptions from predict() pass through.
///
///     const auto batch = memory::largest(Device::cuda(), std::size_t{8} << 30, 1, 4096,
///                                        [](std::int64_t n) { return Training(n); });
template <std::invocable<std::int64_t> F>
Largest largest(Device device, std::size_t limit, std::int64_t low, std::int64_t high, F&& fn,
                PredictOptions options = {}) {
  check<ValueError>(options.limit == PredictOptions{}.limit, "largest: the limit is given twice, as ", limit,
                    " and as ", options.limit, " bytes");
  check<ValueError>(options.recording.empty(), "largest: a recording is of one prediction: predict what was found");
  options.limit = limit;
  return detail::largest(low, high, [&](std::int64_t n) {
    return predict(
        device, [&] { return fn(n); }, options);
  });
}

/// Returns a page of text: the bytes of the first and of the settled step by role, then summarize() of the snapshot.
/// `modules` is the most rows of modules.
std::string summarize(const Prediction& p, std::size_t modules = 8);

}  // namespace bytetape::memory
