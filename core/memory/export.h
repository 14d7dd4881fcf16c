#pragma once
#include <iosfwd>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// Recordings in the formats of others. Equal recordings write equal bytes.

/// Trace-event JSON, for ui.perfetto.dev and chrome://tracing: for each device counters of what each role holds and of
/// what is reserved, and its steps; for each thread its phases, modules and ops, with an arrow from where a block was
/// saved for backward to where backward let it go.
void write_chrome_trace(const Log& log, std::ostream& out);

/// A pickle of what torch.cuda.memory._snapshot() gives, for pytorch.org/memory_viz and torch.cuda._memory_viz: the
/// devices with events are devices 0, 1, ... there, frames are tensor, op, module, phase and step, and the category of
/// a block is its role.
void write_torch_snapshot(const Log& log, std::ostream& out);

/// A line of names, then one for each record of each device.
void write_csv(const Log& log, std::ostream& out);

}  // namespace bytetape::memory
