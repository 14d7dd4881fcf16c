#pragma once
#include <bytetape/core/memory/times.h>

#include <cstdint>
#include <string>
#include <vector>

namespace bytetape::examples {

/// The time of an op, of a module, or of an op in a module, in one phase of a step.
struct TimeRow {
  std::string name, phase;
  std::uint64_t calls = 0, time = 0;  ///< time in nanoseconds
};

/// Adds up the rows of a step, the most time first. `by` is "op", "module" or "call", which is an op in a module. All
/// time between ops is one row, except by module.
std::vector<TimeRow> time_rows(const memory::Log& log, const memory::StepTime& step, const std::string& by);

/// The steps after the first, or the only one.
std::vector<memory::StepTime> later_steps(const std::vector<memory::StepTime>& steps);

}  // namespace bytetape::examples
