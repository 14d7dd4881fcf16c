#include "bytetape/core/memory/summary.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace bytetape::memory {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

class Summary : public ::testing::Test {
 protected:
  void step(std::size_t activation, std::size_t gradient = 0) {
    allocator.begin_step();
    const ScopeGuard scope({intern("net.conv1"), intern("conv2d"), Phase::forward});
    Block* y = allocator.allocate(activation, Role::saved);
    const PhaseScope backward(Phase::backward);
    if (gradient) kept.push_back(allocator.allocate(gradient, Role::gradient));
    allocator.deallocate(y);
    allocator.end_step();
  }
  void parameters(std::size_t bytes) {
    const ScopeGuard scope({intern("net.fc1"), 0, Phase::setup});
    kept.push_back(allocator.allocate(bytes, Role::parameter));
  }
  std::string text(std::size_t modules = 12) { return summarize(allocator.snapshot(), modules); }
  void TearDown() override {
    for (Block* b : kept) allocator.deallocate(b);
  }
  Allocator allocator{Device::meta(), std::make_unique<SimulatedUpstream>()};
  std::vector<Block*> kept;
};

TEST_F(Summary, IsThisPage) {
  parameters(2 * MiB);
  step(12 * MiB, MiB);
  for (int i = 0; i < 98; ++i) step(12 * MiB);
  step(5 * MiB);
  EXPECT_EQ("\n" + text(), R"(
memory on meta: peak 15.0 MiB allocated, 22.0 MiB reserved

at the peak (step 1, backward)
  saved for backward       12.0 MiB  80 %  ███████████████████▎
  parameter                2.00 MiB  13 %  ███▎
  gradient                 1.00 MiB   7 %  █▋

held then, by module                       own peak
  net.conv1                13.0 MiB  87 %  13.0 MiB  saved for backward 12.0 MiB
                                                     gradient 1.00 MiB
  net.fc1                  2.00 MiB  13 %  2.00 MiB  parameter 2.00 MiB

steps and phases              before  allocated      freed       peak      after
  before step 1                    ·   2.00 MiB          ·   2.00 MiB   2.00 MiB
  step 1                    2.00 MiB   13.0 MiB   12.0 MiB   15.0 MiB   3.00 MiB
    forward                            12.0 MiB          ·   14.0 MiB
    backward                           1.00 MiB   12.0 MiB   15.0 MiB
  step 2                    3.00 MiB   12.0 MiB   12.0 MiB   15.0 MiB   3.00 MiB
    forward                            12.0 MiB          ·   15.0 MiB
    backward                                  ·   12.0 MiB   15.0 MiB
    98 of the 99 steps after the first are like this one
  step 100                  3.00 MiB   5.00 MiB   5.00 MiB   8.00 MiB   3.00 MiB
    forward                            5.00 MiB          ·   8.00 MiB
    backward                                  ·   5.00 MiB   8.00 MiB

held now: 3.00 MiB, of which rounding 0 B; cached: 19.0 MiB
102 allocations took 2 segments from the system
)");
}

TEST_F(Summary, ShowsTheMostThatAModuleEverHeld) {
  parameters(8 * MiB);
  allocator.deallocate(kept.back());
  kept.pop_back();
  parameters(MiB);
  step(12 * MiB);
  EXPECT_THAT(text(), HasSubstr("\n  net.fc1                  1.00 MiB   8 %  8.00 MiB  parameter 1.00 MiB\n"));
}

TEST_F(Summary, LeavesOutALastStepThatIsTypical) {
  for (int i = 0; i < 10; ++i) step(MiB);
  EXPECT_THAT(text(), HasSubstr("all 9 steps after the first are like this one"));
  EXPECT_THAT(text(), Not(HasSubstr("step 10 ")));
}

TEST_F(Summary, ShowsTheStepWithThePeak) {
  for (int i = 0; i < 30; ++i) step(i == 20 ? 9 * MiB : MiB);
  EXPECT_THAT(text(), HasSubstr("at the peak (step 21, forward)"));
  EXPECT_THAT(text(), HasSubstr("\n  step 21 "));
}

TEST_F(Summary, StaysShortWhereEveryStepDiffers) {
  for (std::size_t i = 0; i < 500; ++i) step((i + 1) * KiB);
  const std::string page = text();
  EXPECT_LT(std::count(page.begin(), page.end(), '\n'), 40);
  EXPECT_THAT(page, HasSubstr("\n  step 1 "));
  EXPECT_THAT(page, HasSubstr("\n  step 500 "));
}

TEST_F(Summary, KeepsToTheLargestModules) {
  for (int i = 0; i < 5; ++i) {
    const ModuleScope module(intern("net.layer" + std::to_string(i)));
    kept.push_back(allocator.allocate(static_cast<std::size_t>(i + 1) * MiB, Role::parameter));
  }
  const std::string page = text(2);
  EXPECT_THAT(page, HasSubstr("net.layer4"));
  EXPECT_THAT(page, HasSubstr("net.layer3"));
  EXPECT_THAT(page, Not(HasSubstr("net.layer2")));
  EXPECT_THAT(page, HasSubstr("\n  3 more                   6.00 MiB  40 %\n"));
}

TEST_F(Summary, ShortensLongPathsFromTheFront) {
  const ModuleScope module(intern("a.model.with.a.very.long.path.down.to.its.smallest.block.conv1"));
  kept.push_back(allocator.allocate(MiB, Role::parameter));
  EXPECT_THAT(text(), HasSubstr("\n  ….path.down.to.its.smallest.block.conv1  1.00 MiB"));
}

TEST_F(Summary, GoesByOpWhereNoModuleIsNamed) {
  const Op<"matmul"> op;
  kept.push_back(allocator.allocate(MiB, Role::workspace));
  EXPECT_THAT(text(), ContainsRegex("held then, by op +own peak\n  matmul "));
}

TEST_F(Summary, OfNothingIsAPageToo) {
  EXPECT_THAT(text(), HasSubstr("memory on meta: peak 0 B allocated, 0 B reserved\n"));
  EXPECT_THAT(text(), HasSubstr("0 allocations took 0 segments"));
}

TEST_F(Summary, SaysWhatTheLogLostOfEventsOrOfSteps) {
  Snapshot s = allocator.snapshot();
  EXPECT_THAT(summarize(s), Not(HasSubstr("the log is full")));
  s.dropped = 3;
  EXPECT_THAT(summarize(s), HasSubstr("the log is full: 3 events are in the totals only"));
  s.dropped = 0;
  s.dropped_steps = 2;
  EXPECT_THAT(summarize(s), HasSubstr("the log is full: 0 events and 2 steps are in the totals only"));
}

TEST_F(Summary, SaysWhatWentEitherWayOrWasWaitedFor) {
  const Snapshot none = allocator.snapshot();
  EXPECT_THAT(summarize(none), Not(HasSubstr("transfers")));
  Snapshot s = none;
  s.statistics.to_device = {2, 1024};
  EXPECT_THAT(summarize(s), HasSubstr("2 transfers to the device (1.00 KiB), 0 back (0 B); the host waited 0 times"));
  s = none;
  s.statistics.to_host = {3, 2048};
  EXPECT_THAT(summarize(s), HasSubstr("0 transfers to the device (0 B), 3 back (2.00 KiB); the host waited 0 times"));
  s = none;
  s.statistics.waits = 4;
  EXPECT_THAT(summarize(s), HasSubstr("0 transfers to the device (0 B), 0 back (0 B); the host waited 4 times"));
}

TEST_F(Summary, SaysWhatTheLogLost) {
  allocator.reset_log(10);
  for (int i = 0; i < 20; ++i) step(MiB);
  EXPECT_THAT(text(), HasSubstr("the log is full: "));
  EXPECT_THAT(text(), HasSubstr(" and 10 steps are in the totals only"));
}

}  // namespace
}  // namespace bytetape::memory
