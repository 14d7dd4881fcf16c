#include "bytetape/core/memory/report/report_tables.h"

namespace bytetape::memory {

ReportTables::ReportTables(const std::vector<Record>& records, const std::vector<NewLimit>& new_limits) {
  std::uint64_t time = 0;
  auto next_limit = new_limits.begin();
  const auto take_limits = [&](std::size_t records_before) {
    for (; next_limit != new_limits.end() && next_limit->from <= records_before; ++next_limit)
      limits.push_back({events.kind.size(), next_limit->bytes});
  };
  for (const Record& r : records) {
    take_limits(static_cast<std::size_t>(&r - records.data()));
    if (r.event.kind == EventKind::argument || r.event.kind == EventKind::result) continue;  // only advise() uses them
    const auto target = book(r);
    if (!target) {
      ++unmatched;
      continue;
    }
    const Event& e = r.event;
    peak.see(e);
    events.kind.push_back(static_cast<std::uint64_t>(e.kind));
    events.phase.push_back(static_cast<std::uint64_t>(e.phase));
    events.role.push_back(static_cast<std::uint64_t>(e.role));
    events.step.push_back(e.step);
    events.module.push_back(e.module);
    events.thread.push_back(r.thread);
    events.by_module.push_back(r.by_module);
    events.by_op.push_back(r.by_op);
    events.elapsed.push_back(r.time > time ? r.time - time : 0);
    events.target.push_back(*target);
    if (r.time > time) time = r.time;
  }
  take_limits(records.size());
}

std::optional<std::uint64_t> ReportTables::book(const Record& r) {
  const Event& e = r.event;
  switch (e.kind) {
    case EventKind::segment_alloc:
      return make_segment(e);
    case EventKind::segment_free:
      return return_segment(e);
    case EventKind::alloc:
      return make_block(r);
    case EventKind::free:
    case EventKind::retag:
    case EventKind::hold:
    case EventKind::drop:
      return age_of(e);
    case EventKind::out_of_memory:
      return e.requested;
    case EventKind::step_begin:
    case EventKind::step_end:
    case EventKind::to_device:
    case EventKind::to_host:
    case EventKind::wait:
    case EventKind::argument:
    case EventKind::result:
      break;
  }
  return e.bytes;
}

std::uint64_t ReportTables::make_segment(const Event& e) {
  segments.number.push_back(e.segment);
  segments.bytes.push_back(e.bytes);
  return live_segments_[e.segment] = segments.number.size() - 1;
}

std::optional<std::uint64_t> ReportTables::return_segment(const Event& e) {
  const auto at = live_segments_.find(e.segment);
  if (at == live_segments_.end()) return {};
  const std::uint64_t row = at->second;
  live_segments_.erase(at);
  return row;
}

std::optional<std::uint64_t> ReportTables::make_block(const Record& r) {
  const Event& e = r.event;
  const auto segment = live_segments_.find(e.segment);
  if (segment == live_segments_.end()) return {};
  live_blocks_[{e.segment, e.offset}] = blocks.bytes.size();
  blocks.segment.push_back(segment->second);
  blocks.offset.push_back(e.offset);
  blocks.bytes.push_back(e.bytes);
  blocks.requested.push_back(e.requested);
  blocks.op.push_back(e.op);
  blocks.what.push_back(r.what);
  return 0;
}

std::optional<std::uint64_t> ReportTables::age_of(const Event& e) {
  const auto at = live_blocks_.find({e.segment, e.offset});
  if (at == live_blocks_.end()) return {};
  const auto segment = live_segments_.find(e.segment);
  if (segment == live_segments_.end() || segment->second != blocks.segment[at->second]) return {};
  const std::uint64_t age = blocks.bytes.size() - at->second;
  if (e.kind == EventKind::free) live_blocks_.erase(at);
  return age;
}

}  // namespace bytetape::memory
