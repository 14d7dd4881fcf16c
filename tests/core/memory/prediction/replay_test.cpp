#include "bytetape/core/memory/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/holders.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::memory {
namespace {

/// Random traffic of one thread, with events of all kinds but out of memory.
void churn(Allocator& a, unsigned seed, int events) {
  std::mt19937 random(seed);
  const NameId names[] = {0, intern("net"), intern("net.a"), intern("net.b"), intern("net.b.c")};
  std::vector<Block*> live;
  for (int i = 0; i < events; ++i) {
    const ScopeGuard scope({names[random() % 5], names[random() % 5], static_cast<Phase>(random() % phase_count)});
    const auto role = static_cast<Role>(random() % role_count);
    const auto dice = random() % 100;
    if (dice == 0) a.begin_step();
    if (dice == 1) a.end_step();
    if (dice == 2) a.empty_cache();
    if (!live.empty() && dice < 45) {
      const std::size_t at = random() % live.size();
      a.deallocate(live[at]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (!live.empty() && dice < 60) {
      a.retag(live[random() % live.size()], role, names[random() % 5]);
    } else {
      live.push_back(a.allocate(1 + random() % (dice < 90 ? 5000 : 5000000), role));
    }
  }
  for (Block* b : live) a.deallocate(b);
}

class Closing : public ::testing::TestWithParam<Allocator::Mode> {};

TEST_P(Closing, ReplayOfTheLogGivesTheBooks) {
  for (unsigned seed : {1u, 2u, 3u}) {
    Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(), GetParam());
    churn(a, seed, 6000);
    Block* last = a.allocate(12345, Role::gradient);
    const Snapshot s = a.snapshot();
    ASSERT_EQ(s.dropped, 0u);
    Replay replay;
    Watermark allocated, requested, reserved;
    std::array<Watermark, role_count> roles{};
    RoleBytes at_peak{};
    std::vector<RoleBytes> modules_at_peak, ops_at_peak;
    const auto follow = [](Watermark& w, std::size_t level) {
      w.peak = std::max(w.peak, level);
      w.current = level;
    };
    std::vector<std::size_t> most_modules, most_ops;
    const auto follow_all = [](std::vector<std::size_t>& most, const std::vector<RoleBytes>& table) {
      most.resize(table.size());
      for (std::size_t i = 0; i < table.size(); ++i) most[i] = std::max(most[i], total(table[i]));
    };
    bool fresh = false;  // no free since the last new peak
    for (const Event& e : s.events) {
      replay.apply(e);
      ASSERT_EQ(total(replay.by_role()), replay.allocated());
      ASSERT_LE(replay.allocated(), replay.reserved());
      if (replay.allocated() > allocated.peak) fresh = true;
      if (e.kind == EventKind::free) fresh = false;
      follow(allocated, replay.allocated());
      follow(requested, replay.requested());
      follow(reserved, replay.reserved());
      for (std::size_t r = 0; r < role_count; ++r) follow(roles[r], replay.by_role()[r]);
      follow_all(most_modules, replay.by_module());
      follow_all(most_ops, replay.by_op());
      if (fresh) {
        at_peak = replay.by_role();
        modules_at_peak = replay.by_module();
        ops_at_peak = replay.by_op();
      }
    }
    const auto equal = [](const Watermark& a, const Watermark& b) {
      return a.current == b.current && a.peak == b.peak;
    };
    EXPECT_TRUE(equal(s.statistics.allocated, allocated));
    EXPECT_TRUE(equal(s.statistics.requested, requested));
    EXPECT_TRUE(equal(s.statistics.reserved, reserved));
    for (std::size_t r = 0; r < role_count; ++r) EXPECT_TRUE(equal(s.statistics.by_role[r], roles[r])) << r;
    EXPECT_EQ(s.statistics.at_peak, at_peak);
    EXPECT_EQ(total(at_peak), s.statistics.allocated.peak);
    const auto same = [](std::vector<RoleBytes> x, std::vector<RoleBytes> y) {
      x.resize(std::max(x.size(), y.size()));
      y.resize(x.size());
      return x == y;
    };
    EXPECT_TRUE(same(s.by_module, replay.by_module()));
    EXPECT_TRUE(same(s.by_op, replay.by_op()));
    EXPECT_EQ(s.most_by_module, most_modules);
    EXPECT_EQ(s.most_by_op, most_ops);
    EXPECT_EQ(replay.most_by_module(), most_modules);
    EXPECT_EQ(replay.most_by_op(), most_ops);
    EXPECT_TRUE(same(s.by_module_at_peak, modules_at_peak));
    EXPECT_TRUE(same(s.by_op_at_peak, ops_at_peak));
    a.deallocate(last);
  }
}

TEST_P(Closing, EqualProgramsHaveEqualLogs) {
  std::vector<Event> first;
  for (int run = 0; run < 2; ++run) {
    Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(), GetParam());
    churn(a, 9, 3000);
    if (run == 0)
      first = a.snapshot().events;
    else
      EXPECT_EQ(first, a.snapshot().events);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Closing, ::testing::Values(Allocator::Mode::caching, Allocator::Mode::direct),
                         [](const auto& info) {
                           return std::string(info.param == Allocator::Mode::caching ? "Caching" : "Direct");
                         });

}  // namespace
}  // namespace bytetape::memory
