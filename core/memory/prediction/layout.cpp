#include "bytetape/core/memory/layout.h"

#include <algorithm>

namespace bytetape::memory {
namespace {

/// The first event at which the reserved bytes reach their peak.
std::size_t find_peak(const std::vector<Event>& events) {
  std::size_t reserved = 0, peak = 0, at = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& e = events[i];
    if (e.kind == EventKind::segment_alloc) reserved += e.bytes;
    if (e.kind == EventKind::segment_free) reserved -= e.bytes;
    if (reserved <= peak) continue;
    peak = reserved;
    at = i;
  }
  return at;
}

}  // namespace

void Layout::apply(const Event& e) {
  switch (e.kind) {
    case EventKind::segment_alloc:
      reserved_ += e.bytes;
      segments_[e.segment].bytes = e.bytes;
      return;
    case EventKind::segment_free:
      reserved_ -= e.bytes;
      segments_.erase(e.segment);
      return;
    case EventKind::alloc:
      requested_ += e.requested;
      segments_[e.segment].used += e.bytes;
      return;
    case EventKind::free:
      requested_ -= e.requested;
      segments_[e.segment].used -= e.bytes;
      return;
    default:
      return;
  }
}

Usage Layout::usage() const {
  std::size_t used = 0, unused = 0;
  for (const auto& [number, segment] : segments_) {
    used += segment.used;
    if (segment.used == 0) unused += segment.bytes;
  }
  return {requested_, used - requested_, unused, reserved_ - used - unused};
}

ReservedPeak reserved_peak(const std::vector<Event>& events) {
  const std::size_t rises = find_peak(events);
  Layout layout;
  for (std::size_t i = 0; i < events.size(); ++i) {
    layout.apply(events[i]);
    if (i >= rises && events[i].kind == EventKind::alloc) return {layout.usage(), events[i].step, events[i].phase};
  }
  return {layout.usage()};
}

}  // namespace bytetape::memory
