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

namespace bytetape::memory {

/// What a prediction supposes.
struct PredictOptions {
  std::size_t limit = std::numeric_limits<std::size_t>::max();  ///< bytes that may be reserved on the device
  int threads = 0;     ///< of the CPU, which workspaces depend on, as set_num_threads(); 0: those of this thread
  int min_steps = 3;   ///< that are taken in any case: a captured step is recorded by its third call
  int max_steps = 16;  ///< that are taken where they do not come to repeat
  /// A file that it is recorded in (Recording), up to the last step or to where memory ran out: for a report, or to be
  /// compared with a run's. Its times are the prediction's own. "": none.
  std::string recording = {};
  std::string program = {};  ///< what the recording says was run; "": the process, predicted
};

/// What a predicted step will take.
struct PredictedStep {
  std::size_t first_event = 0, end_event = 0;  ///< its part of Prediction::snapshot's events
  std::size_t allocated = 0;                   ///< the most bytes handed out at a time
  RoleBytes by_role{};                         ///< of these, indexed by Role
  std::size_t reserved = 0;                    ///< the most bytes taken from the system
};

/// What a program will do to a device's memory. Events and bytes are those of the real run, record by record, where
/// that starts from nothing held and an empty cache and has as many threads.
struct Prediction {
  Device device;                     ///< the real one
  Snapshot snapshot;                 ///< its books behind the last step, or where memory ran out
  std::vector<Snapshot> others;      ///< of the host, at the end: its memory, pinned or not, that a GPU's program takes
  std::vector<PredictedStep> steps;  ///< that were taken, one in which memory ran out among them
  /// The last so many steps are event by event like as many before, as all later ones are: 1 as a rule, more where
  /// places take turns; 0 where steps have not settled. Segments may have other numbers.
  std::size_t period = 0;
  int threads = 0;                           ///< that it is for
  std::optional<OutOfMemory> out_of_memory;  ///< where the limit was too low

  bool is_settled() const { return period > 0; }
  bool fits() const { return !out_of_memory; }
  std::size_t peak_allocated() const { return snapshot.statistics.allocated.peak; }
  std::size_t peak_reserved() const { return snapshot.statistics.reserved.peak; }
};

namespace detail {
/// Takes steps until they settle.
using TakeSteps = std::function<void(const std::function<void()>& step)>;
Prediction predict(Device device, const std::function<void(const TakeSteps&)>& program, const PredictOptions& options);
}  // namespace detail

/// Runs a program's own code on the meta device that stands in for `device`, which need not be there, and says what it
/// will do to that device's memory. fn() builds what a training loop has before its first step; what it returns takes a
/// step when it is called, until steps are like those before:
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
/// Device::meta(device) is default_device() meanwhile. A class with a model, an optimizer and an operator() does as
/// well: it is neither copied nor moved. Where steps differ by turns (a last batch that is smaller), a step is best a
/// whole epoch.
///
/// Memory of meta devices is the prediction's own on this thread, from nothing held: nothing that the process holds is
/// seen or changed. The default generator is a copy, the thread's scopes are put back; modes (NoGrad, Autocast) are
/// those around the call. Threads may predict at the same time. Meta tensors that fn leaves outside stay usable.
///
/// Where the limit is too low, the prediction says so and is not settled. Throws ValueError where max_steps < 1 or
/// threads is none, DeviceError where there can be no such device, CaptureError in a step that is being captured,
/// FileError where its recording cannot be written, ValueError where one runs already, and what fn throws.
template <std::invocable F>
requires std::invocable < std::invoke_result_t<F&>
& > Prediction predict(Device device, F&& fn, const PredictOptions& options = {}) {
  const auto program = [&](const detail::TakeSteps& take_steps) {
    auto step = fn();
    take_steps([&] { step(); });
  };
  return detail::predict(device, program, options);
}

/// What largest() finds.
struct Largest {
  std::optional<std::int64_t> n;  ///< none where not even `low` fits
  Prediction prediction;          ///< of n, else of `low`
};

namespace detail {
Largest largest(std::int64_t low, std::int64_t high, const std::function<Prediction(std::int64_t)>& predict_for);
}  // namespace detail

/// The largest n from `low` to `high` for which predict(device, [&] { return fn(n); }) fits into `limit` bytes: a
/// batch, the side of an image, the length of a sequence. Tries `low`, then twice as many until one is too much, then
/// halves what is between; what fails of fragmentation is no end, as more of it may be laid out in another way. So what
/// n takes must not fall as n grows. Throws ValueError unless low <= high and 1 <= low, or where options name a limit
/// or a recording too, and what predict() throws.
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

/// A page of text: what the first step and the settled one take, by role, beside each other, and summarize() of the
/// books.
std::string summarize(const Prediction& p, std::size_t modules = 8);

}  // namespace bytetape::memory
