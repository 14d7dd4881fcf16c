#include "tests/support/events.h"

#include <gtest/gtest.h>

#include "bytetape/core/backend.h"

namespace bytetape::test {

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
