#include "bytetape/core/memory/repeats.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "bytetape/core/memory/allocator.h"

namespace bytetape::memory {
namespace {

/// The steps' sizes; each is allocated and freed, in a step.
std::size_t period_of(const std::vector<std::size_t>& steps, std::size_t log_capacity) {
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>());
  a.reset_log(log_capacity);
  Repeats repeats;
  repeats.look(a.snapshot());
  for (const std::size_t bytes : steps) {
    a.begin_step(0);
    a.deallocate(a.allocate(bytes, Role::temporary));
    a.end_step();
    repeats.look(a.snapshot());
  }
  return repeats.period();
}

TEST(Repeats, FindsTheLeastPeriod) {
  EXPECT_EQ(period_of({}, 100), 0u);
  EXPECT_EQ(period_of({512}, 100), 0u);
  EXPECT_EQ(period_of({512, 512}, 100), 0u) << "the first step takes a segment";
  EXPECT_EQ(period_of({512, 512, 512}, 100), 1u);
  EXPECT_EQ(period_of({512, 512, 1024}, 100), 0u);
  EXPECT_EQ(period_of({512, 512, 1024, 512, 1024}, 100), 2u);
  EXPECT_EQ(period_of({512, 512, 1024, 512, 1024, 512, 1024, 1024}, 100), 1u);
  EXPECT_EQ(period_of({4096, 512, 1024, 2048, 512, 1024, 2048}, 100), 3u);
}

// Of what was not kept nobody knows whether it was alike: steps behind the log's end are all empty.
TEST(Repeats, AreNotFoundInALogThatOverflowed) {
  const std::vector<std::size_t> steps(8, 512);
  constexpr std::size_t all = 1 + 8 * 4;  // a segment; then two marks, a block and its free a step
  EXPECT_EQ(period_of(steps, all), 1u);
  for (std::size_t capacity = 0; capacity < all; ++capacity)
    EXPECT_EQ(period_of(steps, capacity), 0u) << capacity << " events";
}

}  // namespace
}  // namespace bytetape::memory
