#include "bytetape/core/memory/prediction/repeats.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>

namespace bytetape::memory {
namespace {

bool is_mark(EventKind k) { return k == EventKind::step_begin || k == EventKind::step_end; }

/// Whether two steps have equal events. The numbers of steps may differ. The numbers of segments may differ if their
/// order is the same, because placement depends on the order only.
bool are_alike(std::span<const Event> a, std::span<const Event> b) {
  std::map<std::uint32_t, std::uint32_t> segments;
  const auto is_alike = [&](const Event& x, Event y) {
    if (is_mark(x.kind)) y.bytes = x.bytes;
    if (x.step && y.step) y.step = x.step;
    if (segments.try_emplace(x.segment, y.segment).first->second == y.segment) y.segment = x.segment;
    return x == y;
  };
  const auto is_out_of_order = [](const auto& s, const auto& next) { return s.second >= next.second; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), is_alike) &&
         std::adjacent_find(segments.begin(), segments.end(), is_out_of_order) == segments.end();
}

}  // namespace

void Repeats::look(const Snapshot& s) {
  const Statistics& books = s.statistics;
  ends_.push_back({std::ssize(s.events), books.allocated.current, books.reserved.current});
  const std::size_t last = ends_.size() - 1;  // entry 0 is the program's start
  const auto step = [&](std::size_t i) {
    return std::span(s.events.begin() + ends_[i - 1].event, s.events.begin() + ends_[i].event);
  };
  in_a_row_.resize(last);
  for (std::size_t period = 1; period < last; ++period) {
    const End &now = ends_[last], &before = ends_[last - period];
    const bool stays = now.allocated == before.allocated && now.reserved == before.reserved && s.dropped == 0;
    in_a_row_[period] = stays && are_alike(step(last - period), step(last)) ? in_a_row_[period] + 1 : 0;
  }
}

std::size_t Repeats::period() const {
  for (std::size_t period = 1; period < in_a_row_.size(); ++period)
    if (in_a_row_[period] >= period) return period;
  return 0;
}

}  // namespace bytetape::memory
