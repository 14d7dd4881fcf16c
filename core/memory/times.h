#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// The time that a thread spent in one op of one module, in one phase, and the time of the device's work that the op
/// launched.
struct OpTime {
  NameId module = 0;  ///< index into the log's names; 0 outside modules
  NameId op = 0;      ///< 0: between ops
  Phase phase = Phase::setup;
  std::uint64_t calls = 0;  ///< how often the op began; 0 between ops
  std::uint64_t time = 0;   ///< nanoseconds
  /// Nanoseconds of the device. Where several pieces of work overlap, the time is that of the one that began first.
  std::uint64_t device_time = 0;
  std::uint64_t flop = 0;   ///< floating-point operations of products (core/kernels/work.h)
  std::uint64_t bytes = 0;  ///< bytes that the kernels must at least move
  /// Nanoseconds that the work takes at the device's ceilings (roofline_time). None if they are not known.
  std::optional<double> least_time = 0.0;
};

/// The device's work of a step. With several devices, they count as one that is busy while any of them is.
struct DeviceTime {
  std::uint64_t begin = 0, end = 0;  ///< of the first and the last work, in nanoseconds since the recording began
  std::uint64_t busy = 0;            ///< nanoseconds in which at least one stream worked

  std::uint64_t span() const { return end - begin; }
  /// The gaps, in which the device waited for the host or for other devices.
  std::uint64_t idle() const { return span() - busy; }
};

/// A step, and where its time went. Times of rows add up to `end - begin`. Device times of rows add up to
/// `device->busy`, and with `device->idle()` to `device->span()`.
struct StepTime {
  std::uint32_t step = 0;
  std::uint32_t step_device = 0;     ///< index into Log::devices of the device that numbered the step
  std::uint64_t begin = 0, end = 0;  ///< nanoseconds since the recording began
  std::vector<OpTime> rows;          ///< the most time first
  std::optional<DeviceTime> device;  ///< none if the step has no device times (RecordingOptions)
  bool is_counted = false;           ///< whether rows have `flop` and `bytes`
  bool has_gpu_work = false;         ///< whether some of them are a GPU's

  std::uint64_t time() const { return end - begin; }
  /// The nanoseconds that a row's work took: of the device, or of the host if all work is the CPU's. 0 if they are not
  /// known, because a GPU's work has no device times.
  std::uint64_t time_of_work(const OpTime& row) const {
    if (device) return row.device_time;
    return has_gpu_work ? 0 : row.time;
  }
};

/// Returns the complete steps of a recording in order, with the times of the thread that ran each. Each device numbers
/// its own steps. These are the steps of the device that has the most, of those with device work if any has. `time` is
/// the host's. On a GPU, it is the time that the host needs to launch kernels. Device work belongs to the step that
/// launched it, also if it ran later. Empty for logs of ledgers, and for predictions. `flop` and `bytes` are those of
/// each kernel that the step launched, also of a captured step's replay.
///
///     for (const memory::StepTime& step : memory::step_times(memory::read_log("run.memlog")))
///       std::cout << "step " << step.step << ": " << step.time() / 1e6 << " ms\n";
std::vector<StepTime> step_times(const Log& log);

/// Returns the work of the counted steps in order, without times. For predictions, which have no times. Steps of all
/// devices are returned.
std::vector<StepTime> step_work(const Log& log);

/// Returns the mean of several steps, row by row, in nanoseconds. Calls are those of all steps, divided and rounded.
/// Device times are the mean of the steps that have them, and so are `flop`, `bytes` and `least_time`; `device->begin`
/// is 0.
StepTime mean_of(const std::vector<StepTime>& steps);

}  // namespace bytetape::memory
