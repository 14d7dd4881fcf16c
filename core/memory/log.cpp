#include "bytetape/core/memory/log.h"

#include <algorithm>

#include "bytetape/core/memory/allocator.h"

namespace bytetape::memory {
namespace {

DeviceLog device_log(const Snapshot& s) {
  DeviceLog d{.name = s.name,
              .capacity = s.capacity,
              .limit = s.limit,
              .dropped = s.dropped,
              .end = s.statistics,
              .outside = s.outside};
  for (const Event& e : s.events)
    d.records.push_back({.event = e, .time = d.records.size(), .by_module = e.module, .by_op = e.op});
  return d;
}

}  // namespace

Log log_of(const std::vector<Snapshot>& ledgers, const std::string& program) {
  Log log{.program = program, .complete = true};
  NameId last = 0;
  for (const Snapshot& s : ledgers) {
    log.devices.push_back(device_log(s));
    for (const Event& e : s.events) last = std::max({last, e.module, e.old_module, e.op});
  }
  for (NameId id = 0; id <= last; ++id) log.names.push_back(name_of(id));
  return log;
}

}  // namespace bytetape::memory
