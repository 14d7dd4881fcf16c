#include "bytetape/core/memory/peak.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/replay.h"

namespace bytetape::memory {
namespace {

Event event(EventKind kind, std::uint64_t bytes) { return {.bytes = bytes, .kind = kind}; }

PeakFinder peak_of(const std::vector<Event>& events) {
  PeakFinder peak;
  for (const Event& e : events) peak.see(e);
  return peak;
}

TEST(PeakFinder, FindsTheFirstAndItsLastRetag) {
  using enum EventKind;
  const PeakFinder none = peak_of({event(segment_alloc, 4096), event(retag, 512), event(step_begin, 1)});
  EXPECT_EQ(none.bytes(), 0u);
  EXPECT_EQ(none.end(), 0u);
  const std::vector<Event> events{event(alloc, 512),  event(retag, 512), event(alloc, 1024), event(step_end, 1),
                                  event(retag, 1024), event(wait, 0),    event(free, 512),   event(retag, 1024),
                                  event(alloc, 512),  event(retag, 512)};
  const PeakFinder peak = peak_of(events);
  EXPECT_EQ(peak.bytes(), 1536u);
  EXPECT_EQ(peak.reached(), 2u);
  EXPECT_EQ(peak.end(), 5u) << "no mark, nothing behind a free, and no later moment that is as high";
}

TEST(PeakFinder, BeginsAtALevel) {
  using enum EventKind;
  PeakFinder peak(1000);
  peak.see(event(wait, 0));
  EXPECT_EQ(peak.end(), 0u) << "it was there before";
  peak.see(event(retag, 512));
  EXPECT_EQ(peak.end(), 2u);
  peak.see(event(free, 512));
  peak.see(event(retag, 488));
  peak.see(event(alloc, 512));
  EXPECT_EQ(peak.bytes(), 1000u);
  EXPECT_EQ(peak.end(), 2u);
  peak.see(event(alloc, 1));
  EXPECT_EQ(peak.bytes(), 1001u);
  EXPECT_EQ(peak.end(), 6u);
}

// Whatever happens, who holds the peak is for both the same.
TEST(PeakFinder, KeepsTheRuleOfTheLedger) {
  std::mt19937 draw(std::random_device{}());
  for (int run = 0; run < 200; ++run) {
    Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>());
    std::vector<Block*> held;
    for (int i = 0; i < 60; ++i) {
      const auto pick = [&] { return static_cast<std::ptrdiff_t>(draw() % held.size()); };
      const ModuleScope module(intern("m" + std::to_string(draw() % 3)));
      if (held.empty() || draw() % 5 < 2) {
        held.push_back(a.allocate(512 * (1 + draw() % 3), Role::temporary));
      } else if (draw() % 3 == 0) {
        const auto at = held.begin() + pick();
        a.deallocate(*at);
        held.erase(at);
      } else {
        a.retag(held[static_cast<std::size_t>(pick())], static_cast<Role>(draw() % role_count), ambient.scope.module);
      }
    }
    const Snapshot s = a.snapshot();
    const PeakFinder peak = peak_of(s.events);
    Replay replay;
    for (std::size_t i = 0; i < peak.end(); ++i) replay.apply(s.events[i]);
    EXPECT_EQ(peak.bytes(), s.statistics.allocated.peak);
    EXPECT_EQ(replay.allocated(), s.statistics.allocated.peak);
    EXPECT_EQ(replay.by_role(), s.statistics.at_peak);
    for (std::size_t id = 0; id < s.by_module_at_peak.size(); ++id)
      EXPECT_EQ(id < replay.by_module().size() ? replay.by_module()[id] : RoleBytes{}, s.by_module_at_peak[id]);
    EXPECT_EQ(s.events[peak.reached()].kind, EventKind::alloc);
    EXPECT_EQ(s.events[peak.reached()].phase, s.statistics.peak_phase);
    for (Block* b : held) a.deallocate(b);
  }
}

}  // namespace
}  // namespace bytetape::memory
