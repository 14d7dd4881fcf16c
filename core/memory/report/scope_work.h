#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// The work of an op of a module, in one phase, on one device.
struct ScopeWork {
  NameId module = 0, op = 0;
  Phase phase = Phase::setup;
  std::uint32_t device = 0;  ///< index into Log::devices
  RooflineWork work;
  std::optional<double> least_time;  ///< roofline_time() in nanoseconds; none if the ceilings are not known
};

/// Returns the rows of a table with those of several precisions as one.
std::vector<ScopeWork> scope_work(const Log& log, std::span<const WorkCount> table);
bool is_gpu(const DeviceLog& device);

/// The work of all tables of a recording, and its counted steps, as columns for the report.
struct ReportCounts {
  explicit ReportCounts(const Log& log);

  using Column = std::vector<std::uint64_t>;
  Column table, module, op, phase, flop, bytes;
  Column least;  ///< ScopeWork::least_time in nanoseconds, plus 1; 0: not known
  Column is_gpus;

  struct Steps {
    Column elapsed;  ///< nanoseconds since the end of the row before
    Column step, step_device, table;
  } steps;  ///< in the order of their ends
};

}  // namespace bytetape::memory
