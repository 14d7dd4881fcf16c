#include "tests/support/events.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "bytetape/core/backend.h"

namespace bytetape::test {

std::string describe(const memory::Event& e) {
  std::ostringstream out;
  out << to_string(e.kind) << ' ' << e.bytes << " B (of " << e.requested << " asked) at " << e.segment << '+'
      << e.offset << ", ";
  if (e.kind == memory::EventKind::retag)
    out << to_string(e.old_role) << " of '" << memory::name_of(e.old_module) << "' -> ";
  out << to_string(e.role) << " of '" << memory::name_of(e.module) << "' by " << memory::name_of(e.op) << ", "
      << to_string(e.phase) << ", step " << e.step;
  return out.str();
}

std::string first_difference(const std::vector<memory::Event>& a, const std::vector<memory::Event>& b) {
  const auto [at_a, at_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (at_a == a.end() && at_b == b.end()) return "";
  std::ostringstream out;
  out << "event " << at_a - a.begin() << " of " << a.size() << " and " << b.size() << ":\n  "
      << (at_a == a.end() ? "(the first log ends)" : describe(*at_a)) << "\n  "
      << (at_b == b.end() ? "(the second log ends)" : describe(*at_b));
  return out.str();
}

std::vector<memory::Event> record_events(Device device, const std::function<void(Device)>& program) {
  memory::Allocator& allocator = memory::allocator(device);
  EXPECT_EQ(allocator.statistics().allocated.current, 0u) << "something is held on " << device << " before the program";
  allocator.empty_cache();
  allocator.reset_log();
  program(device);
  memory::Snapshot s = allocator.snapshot();
  EXPECT_EQ(s.dropped, 0u);
  return std::move(s.events);
}

}  // namespace bytetape::test
