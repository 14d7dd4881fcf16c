#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/outside.h"

namespace bytetape::memory {

/// Everything the books of a device say at one moment.
struct Snapshot {
  Device device;
  std::string name;  ///< of the memory: "cuda:1", "pinned:cuda"
  Statistics statistics;
  std::size_t limit = 0;                     ///< bytes that may be reserved
  std::size_t capacity = 0;                  ///< bytes that the upstream has
  std::vector<RoleBytes> by_module;          ///< what each module holds; indexed by NameId
  std::vector<RoleBytes> by_op;              ///< what each op allocated of that; indexed by NameId
  std::vector<RoleBytes> by_module_at_peak;  ///< by_module when `allocated` was highest
  std::vector<RoleBytes> by_op_at_peak;      ///< by_op when `allocated` was highest
  std::vector<std::size_t> most_by_module;   ///< the most that each module held at once, whenever that was
  std::vector<std::size_t> most_by_op;       ///< and each op
  std::vector<Event> events;
  std::vector<StepSummary> steps;   ///< in order, with the times between them (step 0)
  std::uint64_t dropped = 0;        ///< events that did not fit the log
  std::uint64_t dropped_steps = 0;  ///< step summaries that did not
  std::optional<Outside> outside;   ///< what is used beyond the ledger, where that can be measured
};

}  // namespace bytetape::memory
