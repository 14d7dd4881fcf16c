// Schedules of an optimizer that gets another group on the way.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <vector>

#include "bytetape/core/factories.h"
#include "bytetape/optim/lr_scheduler.h"
#include "bytetape/optim/sgd.h"
#include "tests/support/expect.h"

namespace bytetape::optim::lr_scheduler {
namespace {

using testing::ElementsAre;

struct AddedGroupInSchedule : testing::Test {
  static Tensor leaf() { return ones({2}).set_requires_grad(); }
  SGD sgd{{leaf()}, {.lr = 0.1, .momentum = 0.9}};
  void add(double lr) { sgd.add_param_group({.params = {leaf()}, .lr = lr}); }
  std::vector<double> rates() {
    std::vector<double> all;
    for (const ParamGroup& g : sgd.param_groups()) all.push_back(*g.lr);
    return all;
  }
  static auto near(double a, double b) {
    return ElementsAre(testing::DoubleNear(a, 1e-12), testing::DoubleNear(b, 1e-12));
  }
};

// As in PyTorch.
TEST_F(AddedGroupInSchedule, GoesOnFromItsRate) {
  StepLR schedule(sgd, {.step_size = 3, .gamma = 0.5});
  for (int i = 0; i < 4; ++i) schedule.step();
  add(0.8);
  EXPECT_THAT(rates(), near(0.05, 0.8));
  EXPECT_EQ(schedule.get_last_lr().size(), 1u);
  EXPECT_EQ(schedule.state_dict().number("last_lr.1"), 0.8);
  schedule.step();
  EXPECT_THAT(rates(), near(0.05, 0.8));
  EXPECT_THAT(schedule.get_last_lr(), near(0.05, 0.8));
  EXPECT_EQ(sgd.param_groups()[1].initial_lr, 0.8);
  schedule.step();
  EXPECT_THAT(rates(), near(0.025, 0.4));
}

TEST_F(AddedGroupInSchedule, HasItsRateAsTheInitialOneOfAbsoluteSchedules) {
  LambdaLR schedule(sgd, [](std::int64_t epoch) { return 1.0 / static_cast<double>(1 + epoch); });
  schedule.step();
  add(0.9);
  EXPECT_THAT(rates(), near(0.05, 0.9));
  schedule.step();
  EXPECT_THAT(rates(), near(0.1 / 3, 0.3));
}

TEST_F(AddedGroupInSchedule, MayHaveAnInitialRate) {
  CosineAnnealingWarmRestarts schedule(sgd, {.T_0 = 2});
  schedule.step();
  sgd.add_param_group({.params = {leaf()}, .lr = 0.3, .initial_lr = 0.6});
  schedule.step();  // a restart
  EXPECT_THAT(rates(), near(0.1, 0.6));
}

TEST_F(AddedGroupInSchedule, FollowsTheCycleOfAll) {
  OneCycleLR schedule(sgd, {.max_lr = 0.5, .total_steps = 10});
  schedule.step();
  add(3);
  schedule.step();
  EXPECT_EQ(rates()[1], rates()[0]);
  EXPECT_EQ(*sgd.param_groups()[1].momentum, *sgd.param_groups()[0].momentum);
}

TEST_F(AddedGroupInSchedule, IsInTheScheduleThatFollows) {
  SequentialLR schedule(sgd,
                        {std::make_shared<LinearLR>(sgd, LinearLROptions{.start_factor = 0.5, .total_iters = 2}),
                         std::make_shared<StepLR>(sgd, StepLROptions{.step_size = 1, .gamma = 0.1})},
                        {2});
  add(0.8);
  schedule.step();
  EXPECT_THAT(rates(), near(0.075, 1.2)) << "LinearLR's factor";
  schedule.step();
  EXPECT_THAT(rates(), near(0.1, 0.8)) << "StepLR begins with the initial rates";
  schedule.step();
  EXPECT_THAT(rates(), near(0.01, 0.08));
}

TEST_F(AddedGroupInSchedule, IsInAllPartsOfAChain) {
  ChainedScheduler schedule({std::make_shared<StepLR>(sgd, StepLROptions{.step_size = 2, .gamma = 0.1}),
                             std::make_shared<ExponentialLR>(sgd, ExponentialLROptions{.gamma = 0.5})});
  schedule.step();
  add(0.8);
  schedule.step();
  EXPECT_THAT(rates(), near(0.1 * 0.5 * 0.5 * 0.1, 0.8 * 0.5 * 0.1));
}

TEST_F(AddedGroupInSchedule, IsReducedOnAPlateau) {
  ReduceLROnPlateau schedule(sgd, {.factor = 0.5, .patience = 0, .min_lr = 0.06});
  schedule.step(1);
  add(0.8);
  EXPECT_EQ(schedule.state_dict().number("last_lr.1"), 0.8);
  schedule.step(1);
  EXPECT_THAT(rates(), near(0.06, 0.4));
}

TEST_F(AddedGroupInSchedule, NeedsANewScheduleIfEachGroupHasItsOptions) {
  sgd.add_param_group({.params = {leaf()}});
  const auto one = [](std::int64_t) { return 1.0; };
  LambdaLR lambdas(sgd, std::vector<LambdaLR::Lambda>{one, one});
  OneCycleLR cycle(sgd, {.max_lr = {0.5, 0.6}, .total_steps = 10});
  ChainedScheduler chain({std::make_shared<StepLR>(sgd, StepLROptions{.step_size = 1}),
                          std::make_shared<LambdaLR>(sgd, std::vector<LambdaLR::Lambda>{one, one})});
  ReduceLROnPlateau plateau(sgd, {.min_lr = {0.1, 0.2}});
  add(0.8);
  const auto before = rates();
  EXPECT_THROWS_SAYING(lambdas.step(), ValueError, "LambdaLR has 2 functions, one for each parameter group, but none");
  EXPECT_THROWS_SAYING(cycle.step(), ValueError, "max_lr has 2 values, one for each parameter group, but none for the");
  EXPECT_THROWS_SAYING(chain.step(), ValueError, "LambdaLR has 2 functions");
  EXPECT_THROWS_SAYING(plateau.step(1), ValueError, "expected one min_lr or 3, one for each parameter group, got 2");
  EXPECT_EQ(rates(), before);
  EXPECT_EQ(chain.last_epoch(), 0);
  EXPECT_EQ(plateau.state_dict().integer("last_epoch"), 0);
}

TEST_F(AddedGroupInSchedule, IsSavedBeforeAndAfterTheStepThatTakesItUp) {
  for (const bool is_taken_up : {false, true}) {
    SGD one({leaf()}, {.lr = 0.1}), other({leaf()}, {.lr = 0.2});
    StepLR schedule(one, {.step_size = 2, .gamma = 0.5}), resumed(other, {.step_size = 2, .gamma = 0.5});
    schedule.step();
    one.add_param_group({.params = {leaf()}, .lr = 0.8});
    other.add_param_group({.params = {leaf()}});
    if (is_taken_up) schedule.step();
    resumed.load_state_dict(schedule.state_dict());
    other.load_state_dict(one.state_dict());
    for (int i = 0; i < 3; ++i) {
      schedule.step(), resumed.step();
      EXPECT_EQ(resumed.get_last_lr(), schedule.get_last_lr());
      EXPECT_EQ(*other.param_groups()[1].lr, *one.param_groups()[1].lr);
    }
    EXPECT_EQ(resumed.state_dict().numbers, schedule.state_dict().numbers);
  }
}

// The schedule's state alone has the rates of a group that it has not taken up.
TEST_F(AddedGroupInSchedule, HasTheRatesOfTheStateThatIsLoaded) {
  const auto falling = [](std::int64_t epoch) { return 1.0 / static_cast<double>(1 + epoch); };
  LambdaLR schedule(sgd, falling);
  add(0.9);
  schedule.step();
  SGD other({leaf()}, {.lr = 0.2});
  LambdaLR resumed(other, falling);
  other.add_param_group({.params = {leaf()}, .lr = 0.4});
  resumed.load_state_dict(schedule.state_dict());
  EXPECT_EQ(resumed.get_last_lr(), schedule.get_last_lr());
  schedule.step(), resumed.step();
  EXPECT_EQ(resumed.get_last_lr(), schedule.get_last_lr());
}

}  // namespace
}  // namespace bytetape::optim::lr_scheduler
