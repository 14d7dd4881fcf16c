#include "bytetape/core/memory/step.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "bytetape/core/backend.h"

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

}  // namespace
}  // namespace bytetape::memory
