// Each allocation of a training step fails in turn: nothing is lost, and the step can be taken again.
#include "tests/training/deferred.h"
#include "tests/training/rationed.h"

namespace bytetape {
namespace {

using test::Recipe;

class OutOfMemoryTraining : public testing::TestWithParam<Recipe> {
 protected:
  static std::unique_ptr<memory::Upstream> host() { return std::make_unique<memory::HostUpstream>(); }
};

TEST_P(OutOfMemoryTraining, LosesNothingOnTheCpu) {
  const test::StandIn cpu = test::rationed({}, Device::cpu(), host());
  for (const int disturbed : {0, 1}) {
    SCOPED_TRACE(detail::concat("step ", disturbed));
    test::expect_same_after_each_failure({GetParam(), false, disturbed});
  }
}

TEST_P(OutOfMemoryTraining, LosesNothingWhileAStepIsCaptured) {
  const test::StandIn gpu = test::rationed(test::deferred_backend(), Device::cuda(), host());
  const DefaultDevice here(Device::cuda());
  for (const int disturbed : {0, 1, 2}) {
    SCOPED_TRACE(detail::concat("call ", disturbed));
    test::expect_same_after_each_failure({GetParam(), true, disturbed});
  }
}

INSTANTIATE_TEST_SUITE_P(, OutOfMemoryTraining, testing::ValuesIn(test::recipes()), test::name_of);

TEST(OutOfMemoryResNet, LosesNothing) {
  const test::StandIn cpu = test::rationed({}, Device::cpu(), std::make_unique<memory::HostUpstream>());
  test::expect_same_through_failures(test::resnet_recipe());
}

}  // namespace
}  // namespace bytetape
