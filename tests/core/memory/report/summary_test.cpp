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

TEST_F(Summary, HasWhatHappenedBetweenStepsAndAfterThem) {
  parameters(MiB);
  step(MiB);
  for (const std::size_t size : {2 * MiB, MiB}) {
    Block* b = allocator.allocate(size, Role::temporary);
    allocator.deallocate(b);
    step(MiB);
  }
  parameters(MiB);
  const std::string page = text();
  const std::size_t begin = page.find("\nsteps and phases");
  EXPECT_EQ(page.substr(begin, page.find("\nheld now: ") - begin), R"(
steps and phases              before  allocated      freed       peak      after
  before step 1                    ·   1.00 MiB          ·   1.00 MiB   1.00 MiB
  step 1                    1.00 MiB   1.00 MiB   1.00 MiB   2.00 MiB   1.00 MiB
    forward                            1.00 MiB          ·   2.00 MiB
    backward                                  ·   1.00 MiB   2.00 MiB
  step 2                    1.00 MiB   1.00 MiB   1.00 MiB   2.00 MiB   1.00 MiB
    forward                            1.00 MiB          ·   2.00 MiB
    backward                                  ·   1.00 MiB   2.00 MiB
    all 2 steps after the first are like this one
  between steps, total      1.00 MiB   3.00 MiB   3.00 MiB   3.00 MiB   1.00 MiB
  after step 3              1.00 MiB   1.00 MiB          ·   2.00 MiB   2.00 MiB
)");
}

TEST_F(Summary, HasNoRowsForWhatDidNotHappen) {
  for (int i = 0; i < 3; ++i) step(MiB);
  const std::string page = text();
  for (const char* row : {"before step", "between steps", "after step"}) EXPECT_THAT(page, Not(HasSubstr(row)));
}

TEST_F(Summary, SaysWhatIsUsedOutsideTheLedger) {
  Snapshot s = allocator.snapshot();
  EXPECT_THAT(summarize(s), Not(HasSubstr("outside the ledger")));
  s.outside = Outside{3 * MiB, {}};
  EXPECT_THAT(summarize(s), HasSubstr("\noutside the ledger: 3.00 MiB resident (code, stacks, logs, libraries)\n"));
  s.device = Device::cuda();
  EXPECT_THAT(summarize(s), HasSubstr("\noutside the ledger: 3.00 MiB used on the device (CUDA's context, libraries, "
                                      "other processes)\n"));
  s.outside->others = MiB;
  EXPECT_THAT(summarize(s), HasSubstr("\noutside the ledger: 3.00 MiB used on the device: 2.00 MiB by CUDA's context "
                                      "and libraries, 1.00 MiB by other processes\n"));
}

TEST_F(Summary, SaysTheLimitWhereThereIsOne) {
  EXPECT_THAT(text(), Not(HasSubstr("limit")));
  allocator.set_limit(64 * MiB);
  EXPECT_THAT(text(), HasSubstr("memory on meta: peak 0 B allocated, 0 B reserved, limit 64.0 MiB\n"));
}

TEST_F(Summary, NamesWhatIsOutsideOfAnyStepModuleOrOp) {
  kept.push_back(allocator.allocate(MiB, Role::parameter));
  EXPECT_THAT(text(), HasSubstr("at the peak (outside any step, setup)"));
  EXPECT_THAT(text(), HasSubstr("\n1 allocations took 1 segment from the system\n"));
  EXPECT_THAT(text(), ContainsRegex("held then, by op +own peak\n  \\(outside ops\\) +1.00 MiB"));
  EXPECT_THAT(text(), HasSubstr("\n  outside any step                 ·   1.00 MiB"));
  parameters(2 * MiB);
  EXPECT_THAT(text(), ContainsRegex("held then, by module +own peak\n  net.fc1 .*\n  \\(outside modules\\) +1.00 MiB"));
}

TEST_F(Summary, OrdersHoldersOfOneSizeByName) {
  for (const char* name : {"net.b", "net.a", "net.c"}) {
    const ModuleScope module(intern(name));
    kept.push_back(allocator.allocate(MiB, Role::parameter));
  }
  const std::string page = text();
  EXPECT_LT(page.find("net.a"), page.find("net.b"));
  EXPECT_LT(page.find("net.b"), page.find("net.c"));
}

TEST_F(Summary, ALongNameWidensTheColumnOfAll) {
  for (const auto& [name, size] : {std::pair("net.features.block1.convolution", 2 * MiB), {"net.fc", MiB}}) {
    const ModuleScope module(intern(name));
    kept.push_back(allocator.allocate(size, Role::parameter));
  }
  EXPECT_THAT(text(), HasSubstr("\n  net.features.block1.convolution  2.00 MiB  67 %"));
  EXPECT_THAT(text(), HasSubstr("\n  net.fc                           1.00 MiB  33 %"));
}

TEST_F(Summary, RolesOfLessThanATwentiethAreOther) {
  const ModuleScope module(intern("net"));
  kept.push_back(allocator.allocate(190 * MiB, Role::parameter));
  kept.push_back(allocator.allocate(10 * MiB, Role::gradient));
  EXPECT_THAT(text(), ContainsRegex("parameter 190 MiB\n +gradient 10.0 MiB\n"));
  kept.push_back(allocator.allocate(2 * MiB, Role::parameter));
  EXPECT_THAT(text(), ContainsRegex("parameter 192 MiB\n +other 10.0 MiB\n"));
}

TEST_F(Summary, WithoutPeaksOfModulesShowsWhatTheyHeld) {
  parameters(MiB);
  Snapshot s = allocator.snapshot();
  s.most_by_module.clear();
  EXPECT_THAT(summarize(s), HasSubstr("\n  net.fc1                  1.00 MiB 100 %  1.00 MiB  parameter 1.00 MiB\n"));
}

TEST_F(Summary, StepsAreAlikeIfEveryFigureIs) {
  for (int i = 0; i < 6; ++i) step(MiB);
  const Snapshot all = allocator.snapshot();
  const auto likes = [](const Snapshot& s) {
    const std::string page = summarize(s), words = " steps after the first are like this one";
    const std::size_t end = page.find(words), begin = page.rfind("    ", end) + 4;
    return end == std::string::npos ? "none" : page.substr(begin, end - begin);
  };
  EXPECT_EQ(likes(all), "all 5");
  const auto with_other = [&](auto change) {
    Snapshot s = all;
    for (StepSummary& step : s.steps)
      if (step.step == 4) change(step);
    return likes(s);
  };
  EXPECT_EQ(with_other([](StepSummary& s) { s.before += KiB; }), "4 of the 5");
  EXPECT_EQ(with_other([](StepSummary& s) { s.after += KiB; }), "4 of the 5");
  EXPECT_EQ(with_other([](StepSummary& s) { s.peak += KiB; }), "4 of the 5");
  EXPECT_EQ(with_other([](StepSummary& s) { s.phases[1].peak += KiB; }), "4 of the 5");
  Snapshot s = all;
  s.dropped_steps = 1;
  EXPECT_EQ(likes(s), "all 5 logged");
}

TEST_F(Summary, MostStepsAreLikeTheTypicalOne) {
  step(MiB);
  for (int i = 0; i < 2; ++i) step(2 * MiB);  // such as two steps of a warm-up
  for (int i = 0; i < 4; ++i) step(3 * MiB);
  step(2 * MiB);
  const std::string page = text();
  EXPECT_THAT(page, HasSubstr("4 of the 7 steps after the first are like this one"));
  EXPECT_THAT(page, HasSubstr("\n  step 4 "));
  EXPECT_THAT(page, Not(HasSubstr("\n  step 2 ")));
}

TEST_F(Summary, AStepThatNoOtherIsLikeIsNotTypical) {
  step(MiB);
  step(2 * MiB);
  EXPECT_THAT(text(), HasSubstr("\n  step 2 "));
  EXPECT_THAT(text(), Not(HasSubstr("like this one")));
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
  EXPECT_THAT(page, HasSubstr("\n  3 more                   6.00 MiB  40 %\n\nsteps and phases"));
}

TEST_F(Summary, ShortensLongPathsFromTheFront) {
  const ModuleScope module(intern("a.model.with.a.very.long.path.down.to.its.smallest.block.conv1"));
  kept.push_back(allocator.allocate(MiB, Role::parameter));
  EXPECT_THAT(text(), HasSubstr("\n  ….path.down.to.its.smallest.block.conv1  1.00 MiB"));
  const std::string one_word(60, 'x');
  const ModuleScope other(intern(one_word));
  kept.push_back(allocator.allocate(MiB, Role::parameter));
  EXPECT_THAT(text(), HasSubstr("\n  " + one_word + "  1.00 MiB"));
}

TEST_F(Summary, GoesByOpWhereNoModuleIsNamed) {
  const Op<"matmul"> op;
  kept.push_back(allocator.allocate(MiB, Role::workspace));
  EXPECT_THAT(text(), ContainsRegex("held then, by op +own peak\n  matmul "));
}

TEST_F(Summary, OfNothingIsAPageToo) {
  EXPECT_THAT(text(), HasSubstr("memory on meta: peak 0 B allocated, 0 B reserved\n"));
  EXPECT_THAT(text(), HasSubstr("0 allocations took 0 segments"));
  EXPECT_THAT(text(), Not(HasSubstr("held then")));
}

TEST_F(Summary, SaysWhatTheLogLostOfEventsOrOfSteps) {
  Snapshot s = allocator.snapshot();
  EXPECT_THAT(summarize(s), Not(HasSubstr("the log in memory is full")));
  s.dropped = 3;
  EXPECT_THAT(summarize(s), HasSubstr("\n3 events are in these totals only, because the log in memory is full; "));
  s.dropped = 0;
  s.dropped_steps = 2;
  EXPECT_THAT(summarize(s), HasSubstr("\n0 events and 2 steps are in these totals only, "));
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
  EXPECT_THAT(text(), HasSubstr("the log in memory is full"));
  EXPECT_THAT(text(), HasSubstr(" and 10 steps are in these totals only, "));
}

}  // namespace
}  // namespace bytetape::memory
