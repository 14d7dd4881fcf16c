#include "bytetape/core/memory/step.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/scope.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/error.h"

namespace bytetape::memory {
namespace {

class Steps : public ::testing::Test {
 protected:
  void SetUp() override { allocator(Device::meta()).reset_log(); }
};

TEST_F(Steps, PutTheThreadIntoTheForwardPhase) {
  ASSERT_EQ(ambient.scope.phase, Phase::setup);
  {
    const Step step(Device::meta());
    EXPECT_EQ(ambient.scope.phase, Phase::forward);
    const PhaseScope inner(Phase::optimizer);
    EXPECT_EQ(ambient.scope.phase, Phase::optimizer);
  }
  EXPECT_EQ(ambient.scope.phase, Phase::setup);
}

TEST_F(Steps, CountOnTheirOwnDevice) {
  allocator(Device::cpu()).reset_log();
  EXPECT_EQ(Step().number(), 1u);
  EXPECT_EQ(Step(Device::meta()).number(), 1u);
  EXPECT_EQ(Step(Device::meta()).number(), 2u);
  EXPECT_EQ(Step(Device::meta(), 100).number(), 100u);
  EXPECT_EQ(Step(Device::meta()).number(), 101u);
  EXPECT_EQ(Step().number(), 2u);
}

TEST_F(Steps, EndWhereAnExceptionPasses) {
  try {
    const Step step(Device::meta());
    throw std::runtime_error("in the middle");
  } catch (const std::runtime_error&) {}
  EXPECT_EQ(ambient.scope.phase, Phase::setup);
  EXPECT_EQ(allocator(Device::meta()).snapshot().events.back().kind, EventKind::step_end);
}

TEST_F(Steps, DoNotNest) {
  Allocator& a = allocator(Device::meta());
  {
    const Step outer(Device::meta(), 7);
    const std::size_t events = a.snapshot().events.size();
    const PhaseScope phase(Phase::data);
    try {
      const Step inner(Device::meta());
      FAIL() << "nested";
    } catch (const ValueError& e) {
      EXPECT_STREQ(e.what(), "step 7 is still open on meta: a thread's steps on one device do not nest");
    }
    EXPECT_EQ(ambient.scope.phase, Phase::data);
    EXPECT_EQ(a.snapshot().events.size(), events);
    const Step elsewhere(Device::cpu());
    a.deallocate(a.allocate(512, Role::temporary));
    EXPECT_EQ(a.snapshot().events.back().step, 7u) << "the step goes on";
  }
  EXPECT_EQ(Step(Device::meta()).number(), 8u);
}

TEST_F(Steps, OfTwoThreadsAreOpenAtTheSameTime) {
  Allocator& a = allocator(Device::meta());
  const auto use = [&](std::size_t bytes) { a.deallocate(a.allocate(bytes, Role::temporary)); };
  std::binary_semaphore may_begin(0), has_begun(0), may_end(0);
  std::jthread other([&] {
    may_begin.acquire();
    const Step step(Device::meta(), 20);
    use(2048);
    has_begun.release();
    may_end.acquire();
    use(4096);
  });
  {
    const Step step(Device::meta(), 10);
    use(512);
    may_begin.release();
    has_begun.acquire();
    use(1024);
    std::jthread([&] { use(8192); }).join();  // has no step: the oldest one's
  }
  use(512 * 5);  // the step 10 has ended: the other one's
  may_end.release();
  other.join();
  use(512 * 3);

  std::map<std::size_t, std::uint32_t> step_of;
  const Snapshot s = a.snapshot();
  for (const Event& e : s.events)
    if (e.kind == EventKind::free) step_of[e.bytes] = e.step;
  const std::map<std::size_t, std::uint32_t> expected{{512, 10},     {1024, 10}, {8192, 10},  {2048, 20},
                                                      {512 * 5, 20}, {4096, 20}, {512 * 3, 0}};
  EXPECT_EQ(step_of, expected);
  ASSERT_EQ(s.steps.size(), 3u);
  EXPECT_EQ(s.steps[0].step, 10u);
  EXPECT_EQ(s.steps[1].step, 20u);
  EXPECT_EQ(s.steps[2].step, 0u);
  const auto rose = [&](int i) {
    std::size_t sum = 0;
    for (const auto& f : s.steps[static_cast<std::size_t>(i)].phases) sum += f.rose;
    return sum;
  };
  EXPECT_EQ(rose(0), 512u + 1024 + 8192);
  EXPECT_EQ(rose(1), 2048u + 512 * 5 + 4096);
  EXPECT_EQ(s.steps[1].peak, s.steps[1].before + 8192) << "the device's level, whoever raised it";
}

TEST_F(Steps, EndOnWhicheverThreadDestroysThem) {
  const ScopeGuard scope(ambient.scope);
  Allocator& a = allocator(Device::meta());
  auto step = std::make_unique<Step>(Device::meta(), 5);
  std::jthread([&] {
    const PhaseScope phase(Phase::data);
    const Step own(Device::meta(), 8);
    step.reset();
    EXPECT_EQ(ambient.scope.phase, Phase::forward) << "this thread's";
    EXPECT_EQ(a.snapshot().events.back().kind, EventKind::step_end);
    EXPECT_EQ(a.snapshot().events.back().step, 5u);
    a.deallocate(a.allocate(512, Role::temporary));
    EXPECT_EQ(a.snapshot().events.back().step, 8u) << "which goes on";
  }).join();
  EXPECT_EQ(Step(Device::meta()).number(), 9u) << "none is open here";
}

TEST_F(Steps, EndWhatTheyOpened) {
  Allocator& a = allocator(Device::meta());
  {
    const Step step(Device::meta(), 3);
    a.begin_step(4);  // ends 3
  }
  a.deallocate(a.allocate(512, Role::temporary));
  EXPECT_EQ(a.snapshot().events.back().step, 4u);
  a.end_step();
}

TEST_F(Steps, ThatAThreadLeftOpenAreNoOtherThreads) {
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>());
  std::jthread([&] { a.begin_step(7); }).join();
  for (std::uint32_t number = 8; number < 12; ++number)
    std::jthread([&] {
      EXPECT_NO_THROW({
        const OpenStep step = a.begin_sole_step(number);
        a.deallocate(a.allocate(512, Role::temporary));
        EXPECT_EQ(a.snapshot().events.back().step, number);
        a.end_step(step);
      });
    }).join();
  EXPECT_EQ(a.snapshot().steps.size(), 5u);
}

}  // namespace
}  // namespace bytetape::memory
