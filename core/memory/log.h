#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/outside.h"

namespace bytetape::memory {

/// An Event, and what a Recording adds to it.
struct Record {
  Event event;
  std::uint64_t time = 0;  ///< nanoseconds since the recording began
  NameId by_module = 0;    ///< whose thread did it: who freed a block, who saved it for backward
  NameId by_op = 0;
  NameId what = 0;           ///< of an alloc: the tensor that the block was made for, "f32 64x3x32x32"; or 0
  std::uint32_t thread = 0;  ///< thread_number()
};
static_assert(sizeof(Record) == 72);

/// Something a thread began or ended.
struct Mark {
  enum class Kind : std::uint8_t { module, op, phase };
  std::uint64_t time = 0;  ///< nanoseconds since the recording began
  std::uint32_t thread = 0;
  NameId name = 0;  ///< of the module (its path) or the op
  Kind kind = Kind::op;
  bool begins = true;  ///< or ends: the last of the thread that is open
  Phase phase = Phase::setup;
};

/// A limit that was set while a recording ran.
struct NewLimit {
  std::size_t from = 0;   ///< holds from records[from] on
  std::size_t bytes = 0;  ///< that may be reserved; SIZE_MAX: no bound
};

/// What was recorded of one device.
struct DeviceLog {
  std::string name;                ///< "cpu", "cuda:0", "meta", ...
  std::size_t capacity = 0;        ///< bytes that the system has; SIZE_MAX: no bound
  std::size_t limit = 0;           ///< bytes that may be reserved, as the recording began
  std::vector<NewLimit> limits;    ///< what set_limit() made of it since, in order
  std::vector<Record> records;     ///< from an empty device on, or from a state that its first records rebuild
  std::uint64_t dropped = 0;       ///< events that were not kept
  std::optional<Statistics> end;   ///< the books when the recording ended; none where it broke off
  std::optional<Outside> outside;  ///< what was used beyond the ledger then, where that can be measured

  /// The limit that held when records[at] was made; of records.size() the one at the end.
  std::size_t limit_at(std::size_t at) const;
};

/// A recording: what is written to run.memlog and read from it. NameIds are indices into `names`.
struct Log {
  std::string program;             ///< what was run
  std::vector<std::string> names;  ///< names[0] is ""
  std::vector<DeviceLog> devices;
  std::vector<Mark> marks;    ///< in the order of each thread
  bool complete = false;      ///< false where the program ended before the recording did
  std::string damage;         ///< why the file was read no further: "run.memlog: at byte 812: ..."; "" if it is whole
  bool from_ledgers = false;  ///< made by log_of(): no times, no threads, not who freed a block or kept it for backward
};

struct Snapshot;
/// What ledgers keep of themselves, as a recording without what only those have: each record's time is its place, and
/// who did it is known of allocations, transfers and failures alone.
Log log_of(const std::vector<Snapshot>& ledgers, const std::string& program);

}  // namespace bytetape::memory
