#include "bytetape/core/memory/prediction/repeats.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// Of n steps of an allocator.
std::size_t period_of(Allocator& a, std::size_t n, const std::function<void(std::size_t)>& step) {
  Repeats repeats;
  repeats.look(a.snapshot());
  for (std::size_t i = 0; i < n; ++i) {
    a.begin_step(0);
    step(i);
    a.end_step();
    repeats.look(a.snapshot());
  }
  return repeats.period();
}

Allocator make_allocator(Device device = Device::meta()) { return {device, std::make_unique<SimulatedUpstream>()}; }

/// Of steps that allocate so many bytes and free them.
std::size_t period_of(const std::vector<std::size_t>& steps, std::size_t log_capacity) {
  Allocator a = make_allocator();
  a.reset_log(log_capacity);
  return period_of(a, steps.size(), [&](std::size_t i) { a.deallocate(a.allocate(steps[i], Role::temporary)); });
}

TEST(Repeats, FindsTheLeastPeriod) {
  EXPECT_EQ(period_of({}, 100), 0u);
  EXPECT_EQ(period_of({512}, 100), 0u);
  EXPECT_EQ(period_of({512, 512}, 100), 0u) << "the first step takes a segment";
  EXPECT_EQ(period_of({512, 512, 512}, 100), 1u);
  EXPECT_EQ(period_of({512, 512, 1024}, 100), 0u);
  EXPECT_EQ(period_of({512, 512, 1024, 512, 1024}, 100), 2u);
  EXPECT_EQ(period_of({512, 512, 1024, 512, 1024, 512, 1024, 1024}, 100), 1u);
  EXPECT_EQ(period_of({512, 1024, 2048, 1024}, 100), 0u) << "one of two that might take turns";
  EXPECT_EQ(period_of({4096, 512, 1024, 2048, 512, 1024, 2048}, 100), 3u);
}

// Each takes the next of the segments that lie cached: what happens is alike, and the device fills up.
TEST(Repeats, AreNoStepsBehindWhichMoreIsAllocated) {
  Allocator a = make_allocator();
  std::vector<Block*> held;
  for (int i = 0; i < 6; ++i) held.push_back(a.allocate(12 * mib, Role::temporary));
  for (Block* b : held) a.deallocate(b);
  held.clear();
  EXPECT_EQ(period_of(a, 6, [&](std::size_t) { held.push_back(a.allocate(12 * mib, Role::temporary)); }), 0u);
  EXPECT_EQ(a.statistics().reserved.peak, 6 * 12 * mib);
  for (Block* b : held) a.deallocate(b);
}

// Each is on a stream of its own, which has its own segments.
TEST(Repeats, AreNoStepsBehindWhichMoreIsReserved) {
  const ScopeGuard back{ambient.scope};
  Allocator a = make_allocator(Device::meta(Device::cuda()));
  const auto step = [&](std::size_t i) {
    ambient.scope.stream = static_cast<decltype(ambient.scope.stream)>(i);
    a.deallocate(a.allocate(12 * mib, Role::temporary));
  };
  EXPECT_EQ(period_of(a, 4, step), 0u);
  EXPECT_EQ(a.statistics().reserved.current, 4 * 12 * mib);
}

// What is kept is made before its predecessor goes: the two segments take turns, which are no renumbering.
TEST(Repeats, TellTheOrderOfSegments) {
  Allocator a = make_allocator();
  Block* const first = a.allocate(12 * mib, Role::temporary);  // in segment 0, which stands in marks too
  Block* kept = nullptr;
  const auto step = [&](std::size_t) {
    Block* next = a.allocate(12 * mib, Role::temporary);
    if (kept) a.deallocate(kept);
    kept = next;
  };
  EXPECT_EQ(period_of(a, 8, step), 2u);
  a.deallocate(kept);
  a.deallocate(first);
}

// Events in a marked step are not outside of all steps.
TEST(Repeats, TellWhetherAStepIsMarked) {
  constexpr bool marked = true, not_marked = false;
  const auto period_of_steps = [](const std::vector<bool>& steps) {
    Repeats repeats;
    Snapshot s;
    repeats.look(s);
    std::uint32_t number = 0;
    for (const bool is_marked : steps) {
      Event e{};
      e.kind = EventKind::wait;
      if (is_marked) e.step = ++number;
      s.events.push_back(e);
      repeats.look(s);
    }
    return repeats.period();
  };
  EXPECT_EQ(period_of_steps({marked, marked}), 1u) << "numbers do not count";
  EXPECT_EQ(period_of_steps({not_marked, not_marked}), 1u);
  EXPECT_EQ(period_of_steps({marked, not_marked}), 0u);
  EXPECT_EQ(period_of_steps({not_marked, marked}), 0u);
  EXPECT_EQ(period_of_steps({not_marked, marked, not_marked, marked}), 2u);
}

// Two segments do not become one.
TEST(Repeats, TellSegmentsApart) {
  const auto period_of_segments = [](std::pair<std::uint32_t, std::uint32_t> first,
                                     std::pair<std::uint32_t, std::uint32_t> second) {
    Repeats repeats;
    Snapshot s;
    repeats.look(s);
    for (const auto& [a, b] : {first, second}) {
      for (const std::uint32_t segment : {a, b}) {
        Event e{};
        e.kind = EventKind::retag;
        e.segment = segment;
        s.events.push_back(e);
      }
      repeats.look(s);
    }
    return repeats.period();
  };
  EXPECT_EQ(period_of_segments({1, 2}, {1, 2}), 1u);
  EXPECT_EQ(period_of_segments({1, 2}, {5, 7}), 1u) << "the order is the same";
  EXPECT_EQ(period_of_segments({1, 2}, {7, 5}), 0u);
  EXPECT_EQ(period_of_segments({1, 2}, {1, 1}), 0u);
  EXPECT_EQ(period_of_segments({1, 1}, {1, 2}), 0u);
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
