#include "bytetape/core/memory/ledger/ledger.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/as_thread.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

std::size_t at(const RoleBytes& bytes, Role r) { return bytes[static_cast<std::size_t>(r)]; }
std::size_t at(const std::vector<RoleBytes>& table, NameId id, Role r) {
  return id < table.size() ? at(table[id], r) : 0;
}

class Books : public ::testing::Test {
 protected:
  Block* take(std::size_t bytes, Role role = Role::temporary) { return allocator.allocate(bytes, role); }
  Allocator allocator{Device::meta(), std::make_unique<SimulatedUpstream>()};
  const NameId fc1 = intern("net.fc1"), fc2 = intern("net.fc2"), matmul = intern("matmul"), relu = intern("relu");
};

TEST_F(Books, CountRoundedAndRequestedBytes) {
  Block* a = take(1);
  Block* b = take(513);
  Statistics s = allocator.statistics();
  EXPECT_EQ(s.allocated.current, 3 * 512u);
  EXPECT_EQ(s.requested.current, 514u);
  EXPECT_EQ(s.reserved.current, 2 * MiB);
  EXPECT_EQ(s.allocations, 2u);
  EXPECT_EQ(s.upstream_calls, 1u);
  allocator.deallocate(a);
  allocator.deallocate(b);
  s = allocator.statistics();
  EXPECT_EQ(s.allocated.current, 0u);
  EXPECT_EQ(s.requested.current, 0u);
  EXPECT_EQ(s.allocated.peak, 3 * 512u);
  EXPECT_EQ(s.requested.peak, 514u);
  EXPECT_EQ(s.reserved.current, 2 * MiB);
}

TEST_F(Books, AskingForNothingGivesAUnit) {
  Block* b = take(0);
  EXPECT_EQ(b->size, rounding);
  EXPECT_EQ(b->requested, 0u);
  allocator.deallocate(b);
}

TEST_F(Books, NameRoleModuleAndOp) {
  Block *weight, *y;
  {
    const ScopeGuard scope({fc1, matmul, Phase::forward});
    weight = take(4 * KiB, Role::parameter);
    y = take(8 * KiB);
  }
  const Snapshot s = allocator.snapshot();
  EXPECT_EQ(at(s.by_module, fc1, Role::parameter), 4 * KiB);
  EXPECT_EQ(at(s.by_module, fc1, Role::temporary), 8 * KiB);
  EXPECT_EQ(at(s.by_op, matmul, Role::temporary), 8 * KiB);
  EXPECT_EQ(allocator.owner_of(y).module, fc1);
  EXPECT_EQ(allocator.owner_of(y).op, matmul);
  EXPECT_EQ(allocator.owner_of(y).phase, Phase::forward);
  EXPECT_EQ(allocator.role_of(weight), Role::parameter);
  allocator.deallocate(weight);
  allocator.deallocate(y);
  EXPECT_EQ(at(allocator.snapshot().by_module, fc1, Role::temporary), 0u);
}

TEST_F(Books, RetagMovesBytesAndIsAnEvent) {
  const ScopeGuard scope({fc1, matmul, Phase::forward});
  Block* b = take(4 * KiB);
  allocator.retag(b, Role::gradient, fc2);
  const Snapshot s = allocator.snapshot();
  EXPECT_EQ(at(s.by_module, fc1, Role::temporary), 0u);
  EXPECT_EQ(at(s.by_module, fc2, Role::gradient), 4 * KiB);
  EXPECT_EQ(at(s.by_op, matmul, Role::gradient), 4 * KiB);
  EXPECT_EQ(s.statistics.by_role[static_cast<std::size_t>(Role::gradient)].current, 4 * KiB);
  EXPECT_EQ(s.statistics.allocated.peak, 4 * KiB);
  const Event& e = s.events.back();
  EXPECT_EQ(e.kind, EventKind::retag);
  EXPECT_EQ(e.old_role, Role::temporary);
  EXPECT_EQ(e.role, Role::gradient);
  EXPECT_EQ(e.old_module, fc1);
  EXPECT_EQ(e.module, fc2);
  EXPECT_EQ(e.bytes, 4 * KiB);
  allocator.retag(b, Role::gradient);
  allocator.retag(b, Role::gradient, fc2);
  EXPECT_EQ(allocator.snapshot().events.size(), s.events.size()) << "nothing changed, nothing to log";
  allocator.deallocate(b);
}

TEST_F(Books, ARetagOfTheRoleOrTheModuleAloneIsAnEventToo) {
  Block* const b = take(KiB, Role::input);
  const auto events = [&] { return allocator.snapshot().events.size(); };
  const std::size_t before = events();
  allocator.retag(b, Role::input, 0);
  EXPECT_EQ(events(), before) << "nothing changes";
  allocator.retag(b, Role::input, fc1);
  EXPECT_EQ(events(), before + 1);
  EXPECT_EQ(at(allocator.snapshot().by_module, fc1, Role::input), KiB);
  allocator.retag(b, Role::gradient, fc1);
  EXPECT_EQ(events(), before + 2);
  EXPECT_EQ(at(allocator.snapshot().by_module, fc1, Role::gradient), KiB);
  EXPECT_EQ(at(allocator.snapshot().by_module, fc1, Role::input), 0u);
  allocator.deallocate(b);
}

TEST_F(Books, ATemporaryIsSavedWhileAnybodyHoldsIt) {
  Block* b = take(KiB);
  allocator.hold_saved(b);
  allocator.hold_saved(b);
  EXPECT_EQ(allocator.role_of(b), Role::saved);
  allocator.drop_saved(b, false);
  EXPECT_EQ(allocator.role_of(b), Role::saved);
  allocator.drop_saved(b, false);
  EXPECT_EQ(allocator.role_of(b), Role::temporary);
  allocator.deallocate(b);
}

TEST_F(Books, AParameterStaysOneWhileSaved) {
  Block* b = take(KiB, Role::parameter);
  const std::size_t events = allocator.snapshot().events.size();
  allocator.hold_saved(b);
  EXPECT_EQ(allocator.role_of(b), Role::parameter);
  allocator.drop_saved(b, false);
  EXPECT_EQ(allocator.role_of(b), Role::parameter);
  EXPECT_EQ(allocator.snapshot().events.size(), events);
  allocator.hold_saved(b);
  allocator.retag(b, Role::temporary);
  EXPECT_EQ(allocator.role_of(b), Role::saved) << "no longer a parameter, but still held for backward";
  allocator.drop_saved(b, false);
  EXPECT_EQ(allocator.role_of(b), Role::temporary);
  allocator.deallocate(b);
}

TEST_F(Books, ABlockThatIsAboutToGoKeepsItsRole) {
  Block* b = take(KiB);
  allocator.hold_saved(b);
  allocator.drop_saved(b, true);
  allocator.deallocate(b);
  const Snapshot s = allocator.snapshot();
  EXPECT_EQ(s.events.back().kind, EventKind::free);
  EXPECT_EQ(s.events.back().role, Role::saved);
  Block* next = take(KiB);  // the same place
  EXPECT_EQ(allocator.role_of(next), Role::temporary);
  allocator.deallocate(next);
}

// ---- the most of each

TEST_F(Books, RememberTheMostOfEachModuleAndOp) {
  const auto most = [&](const std::vector<std::size_t>& table, NameId id) { return id < table.size() ? table[id] : 0; };
  Block* first = nullptr;
  {
    const ScopeGuard scope({fc1, matmul, Phase::forward});
    first = take(8 * KiB);
    allocator.deallocate(take(4 * KiB, Role::workspace));
  }
  allocator.deallocate(first);
  {
    const ScopeGuard scope({fc2, matmul, Phase::forward});
    first = take(6 * KiB);
  }
  Snapshot s = allocator.snapshot();
  EXPECT_EQ(most(s.most_by_module, fc1), 12 * KiB);
  EXPECT_EQ(most(s.most_by_module, fc2), 6 * KiB);
  EXPECT_EQ(most(s.most_by_op, matmul), 12 * KiB);
  allocator.retag(first, Role::gradient, fc1);
  EXPECT_EQ(allocator.snapshot().most_by_op, s.most_by_op) << "a change of role is no rise";
  allocator.reset_peaks();
  s = allocator.snapshot();
  EXPECT_EQ(most(s.most_by_module, fc1), 6 * KiB);
  EXPECT_EQ(most(s.most_by_module, fc2), 0u);
  EXPECT_EQ(most(s.most_by_op, matmul), 6 * KiB);
  allocator.deallocate(first);
}

// ---- the peak

TEST_F(Books, RememberWhoHeldThePeak) {
  Block *weight, *big;
  {
    const ScopeGuard scope({fc1, matmul, Phase::setup});
    weight = take(4 * KiB, Role::parameter);
  }
  {
    const ScopeGuard scope({fc2, relu, Phase::backward});
    big = take(64 * KiB, Role::workspace);
  }
  allocator.deallocate(big);
  allocator.deallocate(weight);
  Block* later = take(16 * KiB, Role::input);
  const Snapshot s = allocator.snapshot();
  EXPECT_EQ(s.statistics.allocated.peak, 68 * KiB);
  EXPECT_EQ(at(s.statistics.at_peak, Role::workspace), 64 * KiB);
  EXPECT_EQ(at(s.statistics.at_peak, Role::parameter), 4 * KiB);
  EXPECT_EQ(at(s.statistics.at_peak, Role::input), 0u);
  EXPECT_EQ(at(s.by_module_at_peak, fc1, Role::parameter), 4 * KiB);
  EXPECT_EQ(at(s.by_module_at_peak, fc2, Role::workspace), 64 * KiB);
  EXPECT_EQ(at(s.by_op_at_peak, relu, Role::workspace), 64 * KiB);
  EXPECT_EQ(s.statistics.peak_phase, Phase::backward);
  EXPECT_EQ(s.statistics.peak_step, 0u);
  EXPECT_EQ(at(s.by_module, fc2, Role::workspace), 0u);
  allocator.deallocate(later);
}

TEST_F(Books, CountARetagAtThePeakButNotAfterIt) {
  Block* b = take(8 * KiB);
  allocator.retag(b, Role::saved);
  EXPECT_EQ(at(allocator.statistics().at_peak, Role::saved), 8 * KiB);
  Block* c = take(KiB);
  allocator.deallocate(c);
  allocator.retag(b, Role::gradient);
  EXPECT_EQ(at(allocator.statistics().at_peak, Role::saved), 8 * KiB);
  EXPECT_EQ(at(allocator.statistics().at_peak, Role::gradient), 0u);
  allocator.deallocate(b);
}

TEST_F(Books, KeepTheFirstOfEqualPeaks) {
  Block* b = take(8 * KiB, Role::input);
  allocator.deallocate(b);
  b = take(8 * KiB, Role::workspace);
  EXPECT_EQ(at(allocator.statistics().at_peak, Role::input), 8 * KiB);
  allocator.deallocate(b);
}

TEST_F(Books, PeaksStartOverFromWhatIsHeld) {
  Block* a = take(4 * KiB, Role::parameter);
  Block* b = take(64 * KiB);
  allocator.deallocate(b);
  allocator.reset_peaks();
  Statistics s = allocator.statistics();
  EXPECT_EQ(s.allocated.peak, 4 * KiB);
  EXPECT_EQ(s.requested.peak, 4 * KiB);
  EXPECT_EQ(s.by_role[static_cast<std::size_t>(Role::temporary)].peak, 0u);
  EXPECT_EQ(at(s.at_peak, Role::parameter), 4 * KiB);
  EXPECT_EQ(at(s.at_peak, Role::temporary), 0u);
  b = take(8 * KiB);
  EXPECT_EQ(allocator.statistics().allocated.peak, 12 * KiB);
  allocator.deallocate(a);
  allocator.deallocate(b);
  s = allocator.statistics();
  EXPECT_EQ(at(s.at_peak, Role::parameter), 4 * KiB);
  EXPECT_EQ(at(s.at_peak, Role::temporary), 8 * KiB);
}

TEST_F(Books, PeaksOfWhatIsReservedStartOver) {
  allocator.deallocate(take(64 * MiB));
  allocator.empty_cache();
  EXPECT_EQ(allocator.statistics().reserved.peak, 64 * MiB);
  allocator.reset_peaks();
  EXPECT_EQ(allocator.statistics().reserved.peak, 0u);
}

TEST_F(Books, KnowTheStepOfThePeak) {
  allocator.begin_step(3);
  Block* b = take(KiB);
  EXPECT_EQ(allocator.statistics().peak_step, 3u);
  allocator.end_step();
  Block* later = take(KiB);
  EXPECT_EQ(allocator.statistics().peak_step, 0u);
  for (Block* block : {b, later}) allocator.deallocate(block);
}

// ---- the log

TEST_F(Books, OverflowOfTheLogIsCounted) {
  allocator.reset_log(3);
  Block* blocks[3];
  for (Block*& b : blocks) b = take(KiB);
  for (Block* b : blocks) allocator.deallocate(b);
  const Snapshot s = allocator.snapshot();
  EXPECT_EQ(s.events.size(), 3u);
  EXPECT_EQ(s.dropped, 4u);  // with the segment's
  EXPECT_EQ(s.statistics.allocated.peak, 3 * KiB) << "the totals know all";
  allocator.reset_log();
  EXPECT_EQ(allocator.snapshot().dropped, 0u);
  EXPECT_TRUE(allocator.snapshot().events.empty());
}

TEST_F(Books, OverflowOfTheStepsIsCounted) {
  allocator.reset_log(2);
  for (int i = 0; i < 5; ++i) {
    allocator.begin_step();
    allocator.end_step();
  }
  EXPECT_EQ(allocator.snapshot().steps.size(), 2u);
  EXPECT_EQ(allocator.snapshot().dropped_steps, 3u);
  allocator.reset_log();
  EXPECT_EQ(allocator.snapshot().dropped_steps, 0u);
}

TEST_F(Books, AStepThatIsOpenGoesOnInANewLog) {
  allocator.begin_step(7);
  allocator.reset_log();
  Block* b = take(KiB);
  EXPECT_EQ(allocator.snapshot().events.back().step, 7u);
  EXPECT_EQ(allocator.snapshot().steps.back().step, 7u);
  EXPECT_EQ(allocator.begin_step(), 8u);
  allocator.end_step();
  allocator.reset_log();
  EXPECT_EQ(allocator.begin_step(), 1u);
  allocator.end_step();
  allocator.deallocate(b);
}

TEST_F(Books, OpenStepsStartOverInANewLog) {
  const std::pair<std::uint64_t, std::uint32_t> steps[] = {{901, 9}, {902, 5}};  // thread and number
  Block* before = nullptr;
  for (const auto& [thread, number] : steps) {
    const AsThread as(thread);
    allocator.begin_step(number);
    if (!before) before = take(KiB);
    allocator.deallocate(take(2 * KiB));
  }
  allocator.reset_log();
  for (const StepSummary& s : allocator.snapshot().steps) {
    EXPECT_TRUE(s.is_quiet()) << s.step;
    EXPECT_EQ(s.before, KiB);
    EXPECT_EQ(s.peak, KiB);
  }
  EXPECT_EQ(allocator.begin_step(), 10u);
  allocator.end_step();
  for (const auto& [thread, number] : steps) {
    const AsThread as(thread);
    allocator.end_step();
  }
  allocator.deallocate(before);
}

TEST_F(Books, AShortageIsLoggedWithWhoAsked) {
  const ScopeGuard scope({fc1, matmul, Phase::forward});
  allocator.set_limit(KiB);
  EXPECT_THROW(take(4 * KiB), OutOfMemory);
  const Event e = allocator.snapshot().events.back();
  EXPECT_EQ(e.kind, EventKind::out_of_memory);
  EXPECT_EQ(e.requested, 4 * KiB);
  EXPECT_EQ(e.module, fc1);
  EXPECT_EQ(e.op, matmul);
  EXPECT_EQ(e.phase, Phase::forward);
}

TEST_F(Books, ALimitOfWhatIsReservedKeepsTheCache) {
  allocator.deallocate(take(KiB));
  allocator.set_limit(2 * MiB);
  EXPECT_EQ(allocator.statistics().reserved.current, 2 * MiB);
  allocator.set_limit(2 * MiB - 1);
  EXPECT_EQ(allocator.statistics().reserved.current, 0u);
}

TEST_F(Books, EventsSayWhereWhoAndWhen) {
  const std::uint32_t step = allocator.begin_step(7);
  Block* b;
  {
    const ScopeGuard scope({fc1, matmul, Phase::forward});
    b = take(700, Role::workspace);
  }
  {
    const PhaseScope backward(Phase::backward);
    allocator.deallocate(b);
  }
  allocator.end_step();
  const std::vector<Event> log = allocator.snapshot().events;
  ASSERT_EQ(log.size(), 5u);
  EXPECT_EQ(log[0].kind, EventKind::step_begin);
  EXPECT_EQ(log[0].bytes, step);
  EXPECT_EQ(log[1].kind, EventKind::segment_alloc);
  EXPECT_EQ(log[1].bytes, 2 * MiB);
  EXPECT_EQ(log[1].module, 0u);
  const Event alloc{.offset = 0,
                    .bytes = 1024,
                    .requested = 700,
                    .segment = 0,
                    .step = 7,
                    .module = fc1,
                    .op = matmul,
                    .kind = EventKind::alloc,
                    .role = Role::workspace,
                    .old_role = Role::workspace,
                    .phase = Phase::forward,
                    .old_module = fc1};
  EXPECT_EQ(log[2], alloc);
  Event free = alloc;
  free.kind = EventKind::free;
  free.phase = Phase::backward;
  EXPECT_EQ(log[3], free);
  EXPECT_EQ(log[4].kind, EventKind::step_end);
  EXPECT_EQ(log[4].bytes, step);
  for (const Event& e : log) EXPECT_EQ(e.step, step) << "its own marks are of the step, too: " << to_string(e.kind);
}

TEST_F(Books, KeepTheLogWhereThereIsNoMemoryForAnother) {
  std::vector<std::size_t> too_many{SIZE_MAX, SIZE_MAX / sizeof(Event) + 1};
#ifndef __SANITIZE_ADDRESS__  // it ends the process where new fails
  too_many.push_back(PTRDIFF_MAX / sizeof(StepSummary));
#endif
  allocator.reset_log(3);
  allocator.begin_step();
  Block* b = take(KiB);
  for (const std::size_t capacity : too_many) try {
      allocator.reset_log(capacity);
      ADD_FAILURE() << capacity;
    } catch (const ValueError& e) {
      EXPECT_EQ(e.what(), "reset_log: no memory for " + std::to_string(capacity) +
                              " events of 48 bytes and as many steps of " + std::to_string(sizeof(StepSummary)));
    }
  allocator.deallocate(b);
  const Snapshot s = allocator.snapshot();
  EXPECT_EQ(s.events.size(), 3u);
  EXPECT_EQ(s.events.front().kind, EventKind::step_begin);
  EXPECT_EQ(s.dropped, 1u);
  EXPECT_EQ(s.steps.size(), 1u);
}

// ---- steps

TEST_F(Books, SumUpEachPhaseOfAStep) {
  Block* weight = take(4 * KiB, Role::parameter);
  allocator.begin_step();
  Block *x, *y;
  {
    const PhaseScope phase(Phase::data);
    x = take(2 * KiB, Role::input);
  }
  {
    const PhaseScope phase(Phase::forward);
    y = take(16 * KiB);
    Block* temporary = take(8 * KiB);
    allocator.deallocate(temporary);
  }
  {
    const PhaseScope phase(Phase::backward);
    allocator.deallocate(y);
  }
  {
    const PhaseScope phase(Phase::data);
    allocator.deallocate(x);
  }
  allocator.end_step();
  const std::vector<StepSummary> steps = allocator.snapshot().steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].step, 0u);
  EXPECT_EQ(steps[0].phases[0].rose, 4 * KiB);
  EXPECT_EQ(steps[0].after, 4 * KiB);
  const StepSummary& s = steps[1];
  EXPECT_EQ(s.step, 1u);
  EXPECT_EQ(s.before, 4 * KiB);
  EXPECT_EQ(s.after, 4 * KiB);
  EXPECT_EQ(s.peak, 30 * KiB);
  const auto flow = [&](Phase p) { return s.phases[static_cast<std::size_t>(p)]; };
  EXPECT_EQ(flow(Phase::data), (StepSummary::PhaseFlow{2 * KiB, 2 * KiB, 6 * KiB}));
  EXPECT_EQ(flow(Phase::forward), (StepSummary::PhaseFlow{24 * KiB, 8 * KiB, 30 * KiB}));
  EXPECT_EQ(flow(Phase::backward), (StepSummary::PhaseFlow{0, 16 * KiB, 22 * KiB}));
  EXPECT_EQ(flow(Phase::optimizer), StepSummary::PhaseFlow{});
  allocator.deallocate(weight);
}

TEST_F(Books, APhasesPeakIsItsHighestLevel) {
  allocator.begin_step();
  const ScopeGuard scope({0, 0, Phase::forward});
  allocator.deallocate(take(8 * KiB));
  Block* const kept = take(KiB);
  allocator.deallocate(take(2 * KiB));
  ambient.scope.phase = Phase::backward;
  allocator.deallocate(kept);  // the level before it
  allocator.deallocate(take(512));
  allocator.end_step();
  const auto phases = allocator.snapshot().steps.back().phases;
  EXPECT_EQ(phases[static_cast<std::size_t>(Phase::forward)], (StepSummary::PhaseFlow{11 * KiB, 10 * KiB, 8 * KiB}));
  EXPECT_EQ(phases[static_cast<std::size_t>(Phase::backward)], (StepSummary::PhaseFlow{512, KiB + 512, KiB}));
}

TEST_F(Books, TheTimeBetweenStepsBeginsWhereTheLastOpenStepEnds) {
  {
    const AsThread first(901);
    allocator.begin_step(5);
  }
  const AsThread second(902);
  allocator.begin_step(7);
  {
    const AsThread first(901);
    allocator.end_step();
  }
  Block* const of_step = take(KiB);
  allocator.end_step();
  Block* const between = take(2 * KiB);
  const std::vector<StepSummary> steps = allocator.snapshot().steps;
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].step, 5u);
  EXPECT_EQ(steps[0].after, 0u);
  EXPECT_EQ(steps[1].step, 7u);
  EXPECT_EQ(steps[1].phases[0].rose, KiB);
  EXPECT_EQ(steps[2].step, 0u);
  EXPECT_EQ(steps[2].before, KiB);
  EXPECT_EQ(steps[2].phases[0].rose, 2 * KiB);
  for (Block* b : {of_step, between}) allocator.deallocate(b);
}

TEST_F(Books, CountTransfersAndWaits) {
  const ScopeGuard scope({fc1, matmul, Phase::backward});
  allocator.note_traffic(EventKind::to_device, 100);
  allocator.note_traffic(EventKind::to_device, 20);
  allocator.note_traffic(EventKind::to_host, 3);
  allocator.note_traffic(EventKind::wait, 0);
  const Snapshot s = allocator.snapshot();
  EXPECT_EQ(s.statistics.to_device.count, 2u);
  EXPECT_EQ(s.statistics.to_device.bytes, 120u);
  EXPECT_EQ(s.statistics.to_host.count, 1u);
  EXPECT_EQ(s.statistics.to_host.bytes, 3u);
  EXPECT_EQ(s.statistics.waits, 1u);
  EXPECT_EQ(s.statistics.allocated.peak, 0u);
  ASSERT_EQ(s.events.size(), 4u);
  const std::pair<EventKind, std::size_t> expected[] = {
      {EventKind::to_device, 100}, {EventKind::to_device, 20}, {EventKind::to_host, 3}, {EventKind::wait, 0}};
  for (std::size_t i = 0; i < 4; ++i) {
    const Event& e = s.events[i];
    EXPECT_EQ(e.kind, expected[i].first);
    EXPECT_EQ(e.bytes, expected[i].second);
    EXPECT_EQ(e.requested, expected[i].second);
    EXPECT_EQ(e.module, fc1);
    EXPECT_EQ(e.op, matmul);
    EXPECT_EQ(e.phase, Phase::backward);
  }
}

TEST_F(Books, StepsCountFromOneUnlessTold) {
  EXPECT_EQ(allocator.begin_step(), 1u);
  allocator.end_step();
  EXPECT_EQ(allocator.begin_step(), 2u);
  EXPECT_EQ(allocator.begin_step(40), 40u);  // ends 2
  allocator.end_step();
  allocator.end_step();  // nothing is open
  EXPECT_EQ(allocator.begin_step(), 41u);
  std::vector<std::uint32_t> numbers;
  for (const StepSummary& s : allocator.snapshot().steps) numbers.push_back(s.step);
  EXPECT_EQ(numbers, (std::vector<std::uint32_t>{1, 2, 40, 41})) << "quiet times between are left out";
  int begins = 0, ends = 0;
  for (const Event& e : allocator.snapshot().events) (e.kind == EventKind::step_begin ? begins : ends)++;
  EXPECT_EQ(begins, 4);
  EXPECT_EQ(ends, 3);
}

TEST_F(Books, AQuietStepsPeakIsWhatItFound) {
  Block* b = take(KiB);
  allocator.begin_step();
  allocator.end_step();
  EXPECT_EQ(allocator.snapshot().steps.back().peak, KiB);
  allocator.deallocate(b);
}

TEST_F(Books, NothingIsLostBetweenSteps) {
  std::vector<Block*> kept;
  for (int i = 0; i < 3; ++i) {
    kept.push_back(take(KiB));
    allocator.begin_step();
    kept.push_back(take(2 * KiB));
    allocator.end_step();
  }
  kept.push_back(take(5 * KiB));
  std::size_t rose = 0;
  for (const StepSummary& s : allocator.snapshot().steps)
    for (const auto& f : s.phases) rose += f.rose;
  EXPECT_EQ(rose, allocator.statistics().allocated.current);
  EXPECT_EQ(allocator.snapshot().steps.back().after, 14 * KiB);
  for (Block* b : kept) allocator.deallocate(b);
}

}  // namespace
}  // namespace bytetape::memory
