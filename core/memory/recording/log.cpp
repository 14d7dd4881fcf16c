#include "bytetape/core/memory/log.h"

#include <algorithm>

#include "bytetape/core/memory/allocator.h"

namespace bytetape::memory {
namespace {

/// Whether an event's module and op are those of its thread. For other events they are those of the block.
bool is_of_its_thread(EventKind k) {
  using enum EventKind;
  return k == alloc || k == out_of_memory || k == to_device || k == to_host || k == wait;
}

DeviceLog device_log(const Snapshot& s) {
  DeviceLog d{.name = s.name,
              .capacity = s.capacity,
              .limit = s.limit,
              .dropped = s.dropped,
              .end = s.statistics,
              .outside = s.outside,
              .external = s.external};
  for (const Event& e : s.events) {
    const bool is_its = is_of_its_thread(e.kind);
    d.records.push_back(
        {.event = e, .time = d.records.size(), .by_module = is_its ? e.module : 0, .by_op = is_its ? e.op : 0});
  }
  return d;
}

}  // namespace

const char* to_string(DeviceWork::Kind k) {
  constexpr const char* text[] = {"kernel", "copy to device", "copy to host", "copy on device", "fill"};
  return text[static_cast<int>(k)];
}

std::size_t DeviceLog::limit_at(std::size_t at) const {
  std::size_t bytes = limit;
  for (const NewLimit& l : limits)
    if (l.from <= at) bytes = l.bytes;
  return bytes;
}

Log log_of(const std::vector<Snapshot>& ledgers, const std::string& program) {
  Log log{.program = program, .complete = true, .from_ledgers = true};
  NameId last = 0;
  for (const Snapshot& s : ledgers) {
    log.devices.push_back(device_log(s));
    for (const Event& e : s.events) last = std::max({last, e.module, e.old_module, e.op});
  }
  for (NameId id = 0; id <= last; ++id) log.names.push_back(name_of(id));
  return log;
}

}  // namespace bytetape::memory
