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

}  // namespace bytetape::test
