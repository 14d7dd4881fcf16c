#include "tests/support/events.h"
#include "bytetape/core/memory/stats.h"

#include <gtest/gtest.h>

#include "bytetape/core/device/backend.h"

namespace bytetape::test {

std::vector<memory::Event> record_events(Device device, const std::function<void(Device)>& program) {
  EXPECT_EQ(memory::stats(device).allocated.current, 0u) << "something is held on " << device << " before the program";
  memory::empty_cache(device);
  memory::reset_log(device);
  program(device);
  memory::Snapshot s = memory::snapshot(device);
  EXPECT_EQ(s.dropped, 0u);
  return std::move(s.events);
}

Allocations allocations_of(Device device, const std::function<void()>& program) {
  memory::reset_log(device);
  program();
  const memory::Snapshot s = memory::snapshot(device);
  EXPECT_EQ(s.dropped, 0u);
  Allocations all;
  for (const memory::Event& e : s.events) {
    if (e.kind != memory::EventKind::alloc) continue;
    if (e.role == memory::Role::workspace)
      all.workspaces += e.requested;
    else
      all.tensors.push_back(e.requested);
  }
  return all;
}

}  // namespace bytetape::test
