#include "bytetape/core/memory/compare.h"

#include <algorithm>
#include <sstream>

namespace bytetape::memory {
namespace {

Event with_names_of(const Event& other, Event e) {
  e.module = other.module;
  e.old_module = other.old_module;
  e.op = other.op;
  return e;
}

}  // namespace

std::string describe(const Event& e) {
  std::ostringstream out;
  if (e.kind == EventKind::segment_alloc || e.kind == EventKind::segment_free) {
    out << to_string(e.kind) << ' ' << e.bytes << " B, segment " << e.segment;
    return out.str();
  }
  if (e.kind == EventKind::step_begin || e.kind == EventKind::step_end) {
    out << to_string(e.kind) << ' ' << e.bytes;
    return out.str();
  }
  out << to_string(e.kind) << ' ' << e.bytes << " B (" << e.requested << " requested) at " << e.segment << '+'
      << e.offset << ", ";
  if (e.kind == EventKind::retag) out << to_string(e.old_role) << " of '" << name_of(e.old_module) << "' -> ";
  out << to_string(e.role) << " of '" << name_of(e.module) << "' by " << name_of(e.op) << ", " << to_string(e.phase)
      << ", step " << e.step;
  return out.str();
}

std::string first_difference(const std::vector<Event>& a, const std::vector<Event>& b, Names names) {
  const auto equal = [names](const Event& x, const Event& y) {
    return x == (names == Names::compared ? y : with_names_of(x, y));
  };
  const auto [at_a, at_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end(), equal);
  if (at_a == a.end() && at_b == b.end()) return "";
  std::ostringstream out;
  out << "event " << at_a - a.begin() << " of " << a.size() << " and " << b.size()
      << ":\n  A: " << (at_a == a.end() ? "(the first log ends)" : describe(*at_a))
      << "\n  B: " << (at_b == b.end() ? "(the second log ends)" : describe(*at_b));
  return out.str();
}

}  // namespace bytetape::memory
