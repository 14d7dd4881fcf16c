#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/memory/ceilings.h"
#include "bytetape/core/memory/device_work.h"
#include "bytetape/core/memory/ledger/external.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/outside.h"
#include "bytetape/core/memory/work_count.h"

namespace bytetape::memory {

/// An Event, with the fields that a Recording adds.
struct Record {
  Event event;
  std::uint64_t time = 0;  ///< nanoseconds since the recording began
  NameId by_module = 0;    ///< module of the thread that caused the event: it freed the block, or saved it for backward
  NameId by_op = 0;
  NameId what = 0;           ///< alloc: the tensor that the block was made for, "f32 64x3x32x32"; or 0
  std::uint32_t thread = 0;  ///< thread_number()
};
static_assert(sizeof(Record) == 72);

/// The begin or end of a module, op or phase on a thread.
struct Mark {
  enum class Kind : std::uint8_t { module, op, phase };
  std::uint64_t time = 0;  ///< nanoseconds since the recording began
  std::uint32_t thread = 0;
  NameId name = 0;  ///< the module's path, or the op's name
  Kind kind = Kind::op;
  bool begins = true;  ///< false: ends the thread's last open mark
  Phase phase = Phase::setup;
};

/// A limit that was set during a recording.
struct NewLimit {
  std::size_t from = 0;   ///< index of the first record under this limit
  std::size_t bytes = 0;  ///< bytes that may be reserved; SIZE_MAX: no bound
};

/// The recording of one device.
struct DeviceLog {
  std::string name;                ///< "cpu", "cuda:0", "meta", ...
  std::size_t capacity = 0;        ///< bytes that the system has; SIZE_MAX: no bound
  std::size_t limit = 0;           ///< bytes that may be reserved when the recording began
  std::vector<NewLimit> limits;    ///< later limits from set_limit(), in order
  std::vector<Record> records;     ///< from an empty device on, or from a state that the first records rebuild
  std::uint64_t dropped = 0;       ///< number of events that were not kept
  std::optional<Statistics> end;   ///< totals when the recording ended; none if it broke off
  std::optional<Outside> outside;  ///< memory used beyond the ledger at the end; none if it could not be measured
  External external;               ///< memory of other libraries that tensors used at the end, and the most before

  /// Returns the limit when records[at] was made. For records.size(), the limit at the end.
  std::size_t limit_at(std::size_t at) const;
};

/// A recording, as written to and read from run.memlog. NameIds are indices into `names`.
struct Log {
  std::string program;             ///< title of the run
  std::vector<std::string> names;  ///< names[0] is ""
  std::vector<DeviceLog> devices;
  std::vector<Mark> marks;                 ///< each thread's in order
  std::vector<DeviceWork> device_work;     ///< of the steps with device times (RecordingOptions); in order of arrival
  std::vector<WorkCount> work_counts;      ///< the rows of a table are adjacent, in the order of tables
  std::vector<CountedStep> counted_steps;  ///< in the order of their ends, but for steps of several threads
  std::vector<Ceilings> ceilings;          ///< of the devices; empty if they were not measured
  bool complete = false;                   ///< false if the program ended before the recording did
  std::string damage;         ///< why reading stopped: "run.memlog: at byte 812: ..."; "" if the file is whole
  bool from_ledgers = false;  ///< made by log_of(): no times, no threads, not who freed or saved a block
};

struct Snapshot;
/// Returns the logs of ledgers as a recording, without the fields that only recordings have. Each record's time is its
/// index. `by_module` and `by_op` are known for allocations, transfers and failures only.
Log log_of(const std::vector<Snapshot>& ledgers, const std::string& program);

}  // namespace bytetape::memory
