#pragma once
#include <iosfwd>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// Exports of recordings to the formats of other tools. Equal recordings write equal bytes.

/// Writes trace-event JSON, for ui.perfetto.dev and chrome://tracing. Each device has its steps, and counters of bytes
/// by role and of reserved bytes. Each thread has its phases, modules and ops. An arrow leads from where a block was
/// saved for backward to where backward released it. The ends of steps have the work of their kernels.
void write_chrome_trace(const Log& log, std::ostream& out);

/// Writes a pickle like torch.cuda.memory._snapshot(), for pytorch.org/memory_viz and torch.cuda._memory_viz. The
/// devices with events are devices 0, 1, ... there. Frames are tensor, op, module, phase and step. The category of a
/// block is its role.
void write_torch_snapshot(const Log& log, std::ostream& out);

/// Writes CSV: a header line, then a line for each record of each device.
void write_csv(const Log& log, std::ostream& out);

/// Writes CSV: a header line, then a line for each op of each module in each phase of each step (step_times), in order.
/// Times are in nanoseconds. Cells that are not known are empty.
void write_times_csv(const Log& log, std::ostream& out);

}  // namespace bytetape::memory
