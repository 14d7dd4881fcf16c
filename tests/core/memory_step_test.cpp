#include "bytetape/core/memory/step.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "bytetape/core/backend.h"
#include "bytetape/core/error.h"

namespace bytetape::memory {
namespace {

class Steps : public ::testing::Test {
 protected:
  void SetUp() override { allocator(Device::meta()).reset_log(); }
};

TEST_F(Steps, PutTheThreadIntoTheForwardPhase) {
  ASSERT_EQ(current_scope.phase, Phase::setup);
  {
    const Step step(Device::meta());
    EXPECT_EQ(current_scope.phase, Phase::forward);
    const PhaseScope inner(Phase::optimizer);
    EXPECT_EQ(current_scope.phase, Phase::optimizer);
  }
  EXPECT_EQ(current_scope.phase, Phase::setup);
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
  EXPECT_EQ(current_scope.phase, Phase::setup);
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
      EXPECT_STREQ(e.what(), "step 7 is still open on meta: steps of one device do not nest");
    }
    EXPECT_EQ(current_scope.phase, Phase::data);
    EXPECT_EQ(a.snapshot().events.size(), events);
    const Step elsewhere(Device::cpu());
    a.deallocate(a.allocate(512, Role::temporary));
    EXPECT_EQ(a.snapshot().events.back().step, 7u) << "the step goes on";
  }
  EXPECT_EQ(Step(Device::meta()).number(), 8u);
}

}  // namespace
}  // namespace bytetape::memory
