#include "bytetape/core/memory/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/log.h"
#include "tests/support/random.h"

namespace bytetape::memory {
namespace {

/// How the first `n` events leave what is reserved, counted block by block.
Usage counted(const std::vector<Event>& events, std::size_t n) {
  std::map<std::uint32_t, std::size_t> segments, used;
  Usage u;
  std::size_t held = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Event& e = events[i];
    if (e.kind == EventKind::segment_alloc) segments[e.segment] = e.bytes;
    if (e.kind == EventKind::segment_free) segments.erase(e.segment);
    if (e.kind == EventKind::alloc) u.requested += e.requested, held += e.bytes, used[e.segment] += e.bytes;
    if (e.kind == EventKind::free) u.requested -= e.requested, held -= e.bytes, used[e.segment] -= e.bytes;
  }
  std::size_t reserved = 0;
  for (const auto& [segment, bytes] : segments) {
    reserved += bytes;
    if (used[segment] == 0) u.unused += bytes;
  }
  u.rounding = held - u.requested;
  u.stranded = reserved - held - u.unused;
  return u;
}

bool are_equal(const Usage& a, const Usage& b) {
  return a.requested == b.requested && a.rounding == b.rounding && a.unused == b.unused && a.stranded == b.stranded;
}

/// Blocks come and go at random, and now and then the cache.
std::vector<Event> random_events(std::uint64_t number) {
  std::mt19937_64 g = test::generator_for("layout", number);
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>());
  std::vector<Block*> held;
  for (int i = 0; i < 60; ++i) {
    if (g() % 3 && held.size() < 12) {
      held.push_back(a.allocate(1 + g() % (g() % 2 ? 5000 : 40'000'000), Role::temporary));
    } else if (!held.empty()) {
      std::swap(held[g() % held.size()], held.back());
      a.deallocate(held.back());
      held.pop_back();
    }
    if (g() % 8 == 0) a.empty_cache();
  }
  for (Block* b : held) a.deallocate(b);
  return a.snapshot().events;
}

TEST(Layout, IsWhatCountingGives) {
  for (std::uint64_t k = 0; k < 20; ++k) {
    const std::vector<Event> events = random_events(k);
    Layout layout;
    for (std::size_t i = 0; i < events.size(); ++i) {
      layout.apply(events[i]);
      const Usage expected = counted(events, i + 1);
      ASSERT_TRUE(are_equal(layout.usage(), expected)) << "event " << i;
      ASSERT_EQ(layout.reserved(), expected.reserved());
    }
  }
}

TEST(ReservedPeak, IsTheFirstMomentOfTheMostBytes) {
  for (std::uint64_t k = 0; k < 20; ++k) {
    const std::vector<Event> events = random_events(k);
    std::size_t most = 0, at = 0;
    for (std::size_t i = 0; i < events.size(); ++i)
      if (const std::size_t bytes = counted(events, i + 1).reserved(); bytes > most) most = bytes, at = i;
    while (events[at].kind != EventKind::alloc) ++at;  // which the segment was taken for
    EXPECT_TRUE(are_equal(reserved_peak(events).usage, counted(events, at + 1))) << k;
  }
  EXPECT_EQ(reserved_peak({}).usage.reserved(), 0u);
}

}  // namespace
}  // namespace bytetape::memory
