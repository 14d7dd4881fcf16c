#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/ledger/external.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/outside.h"

namespace bytetape::memory {

/// The whole ledger of a device at one moment.
struct Snapshot {
  Device device;
  std::string name;  ///< the memory's name: "cuda:1", "pinned:cuda"
  Statistics statistics;
  std::size_t limit = 0;                     ///< bytes that may be reserved
  std::size_t capacity = 0;                  ///< bytes of the upstream
  std::vector<RoleBytes> by_module;          ///< bytes by module and role; indexed by NameId
  std::vector<RoleBytes> by_op;              ///< bytes by op and role; indexed by NameId
  std::vector<RoleBytes> by_module_at_peak;  ///< by_module when `allocated` was highest
  std::vector<RoleBytes> by_op_at_peak;      ///< by_op when `allocated` was highest
  std::vector<std::size_t> most_by_module;   ///< the most bytes that each module held at once
  std::vector<std::size_t> most_by_op;       ///< the most bytes that each op held at once
  std::vector<Event> events;
  std::vector<StepSummary> steps;   ///< in order, including the times between them (step 0)
  std::uint64_t dropped = 0;        ///< number of events that did not fit the log
  std::uint64_t dropped_steps = 0;  ///< number of step summaries that did not fit
  std::optional<Outside> outside;   ///< memory used beyond the ledger; none if it cannot be measured
  External external;                ///< memory of other libraries that tensors use; not in `statistics` nor `outside`
};

}  // namespace bytetape::memory
