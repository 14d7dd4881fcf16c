#pragma once
#include <cstdint>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// The time that a thread spent in one op of one module, in one phase.
struct OpTime {
  NameId module = 0;  ///< index into the log's names; 0 outside modules
  NameId op = 0;      ///< 0: between ops
  Phase phase = Phase::setup;
  std::uint64_t calls = 0;  ///< how often the op began; 0 between ops
  std::uint64_t time = 0;   ///< nanoseconds
};

/// A step, and where its time went. Times of rows add up to `end - begin`.
struct StepTime {
  std::uint32_t step = 0;
  std::uint64_t begin = 0, end = 0;  ///< nanoseconds since the recording began
  std::vector<OpTime> rows;          ///< the most time first

  std::uint64_t time() const { return end - begin; }
};

/// Returns the complete steps of a recording in order, with the times of the thread that ran each. These are times of
/// the host. On a GPU, an op takes the time that the host needs to launch its kernels. Empty for logs of ledgers, and
/// for predictions.
///
///     for (const memory::StepTime& step : memory::step_times(memory::read_log("run.memlog")))
///       std::cout << "step " << step.step << ": " << step.time() / 1e6 << " ms\n";
std::vector<StepTime> step_times(const Log& log);

/// Returns the mean of several steps, row by row, in nanoseconds. Calls are those of all steps, divided and rounded.
StepTime mean_of(const std::vector<StepTime>& steps);

}  // namespace bytetape::memory
