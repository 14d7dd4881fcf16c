#pragma once
#include <bytetape/core/memory/times.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bytetape::examples {

/// The time and work of an op, of a module, or of an op in a module, in one phase of a step.
struct TimeRow {
  std::string name, phase;
  std::uint64_t calls = 0, time = 0;  ///< time in nanoseconds
  std::uint64_t device_time = 0;      ///< likewise; 0 without device times
  std::uint64_t work_time = 0;        ///< likewise: StepTime::time_of_work()
  std::uint64_t flop = 0, bytes = 0;
  std::optional<double> least_time = 0.0;  ///< OpTime::least_time

  /// Adds the times and the work of another row.
  void add(const TimeRow& other);
};

/// Adds up the rows of a step, the most device time first, or else the most time. `by` is "op", "module" or "call",
/// which is an op in a module. All time between ops is one row, except by module.
std::vector<TimeRow> time_rows(const memory::Log& log, const memory::StepTime& step, const std::string& by);

/// The kernels of one name that an op launched, or its copies or fills of one kind.
struct KernelRow {
  std::string kernel, op, module;
  std::uint64_t count = 0, bytes = 0;  ///< bytes of copies and fills
  std::uint64_t time = 0;              ///< nanoseconds; work that overlaps counts in full
};

/// Adds up the device work of these steps, which must be in order, the most time first.
std::vector<KernelRow> kernel_rows(const memory::Log& log, const std::vector<memory::StepTime>& steps);

/// The median time of a step on the host, in nanoseconds. `steps` must not be empty.
std::uint64_t median_time(const std::vector<memory::StepTime>& steps);
/// The steps with device times, or those without.
std::vector<memory::StepTime> steps_with_device(const std::vector<memory::StepTime>& steps, bool with);

/// Whether all counted steps of a recording are predicted. They have work, and no times.
bool is_prediction(const memory::Log& log);
/// The complete steps of a recording with their times.
/// Throws ValueError if the recording has no complete step.
std::vector<memory::StepTime> complete_steps(const memory::Log& log);
/// The step of that number.
/// Throws ValueError if no step has it. The message names the first and the last step. `steps` must not be empty.
const memory::StepTime& step_numbered(const std::vector<memory::StepTime>& steps, std::uint32_t number);

/// The steps after the first, or the only one.
std::vector<memory::StepTime> later_steps(const std::vector<memory::StepTime>& steps);

}  // namespace bytetape::examples
