// Both ends of each option's range, and each way to compare.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "bytetape/core/factories.h"
#include "bytetape/optim/lr_scheduler.h"
#include "bytetape/optim/sgd.h"
#include "tests/support/expect.h"

namespace bytetape::optim::lr_scheduler {
namespace {

using Mode = ReduceLROnPlateauOptions::Mode;
using ThresholdMode = ReduceLROnPlateauOptions::ThresholdMode;
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Ranges : testing::Test {
  SGD optimizer{{ones({2}).set_requires_grad()}, {.lr = 0.1, .momentum = 0.9}};
};

TEST_F(Ranges, OfLinearLR) {
  const auto made = [&](double start, double end) { LinearLR(optimizer, {.start_factor = start, .end_factor = end}); };
  EXPECT_THROWS_SAYING(made(-0.1, 1), ValueError, "start_factor above 0 and at most 1, got -0.1");
  EXPECT_THROWS_SAYING(made(1.5, 1), ValueError, "start_factor above 0 and at most 1, got 1.5");
  EXPECT_THROWS_SAYING(made(0.5, -0.5), ValueError, "end_factor from 0 to 1, got -0.5");
  EXPECT_THROWS_SAYING(made(0.5, 1.5), ValueError, "end_factor from 0 to 1, got 1.5");
  made(1, 0), made(1, 1);
  EXPECT_THROWS_SAYING(LinearLR(optimizer, {.total_iters = 0}), ValueError, "total_iters of at least 1, got 0");
}

TEST_F(Ranges, OfExponentialLR) {
  EXPECT_THROWS_SAYING(ExponentialLR(optimizer, {.gamma = 0}), ValueError, "a positive gamma, got 0");
}

TEST_F(Ranges, OfCosineAnnealingLR) {
  EXPECT_THROWS_SAYING(CosineAnnealingLR(optimizer, {.T_max = 0}), ValueError, "T_max of at least 1, got 0");
  EXPECT_THROWS_SAYING(CosineAnnealingLR(optimizer, {.T_max = 2, .eta_min = -0.1}), ValueError, "eta_min");
  CosineAnnealingLR schedule(optimizer, {.T_max = 1, .eta_min = 0.02});
  for (int epoch = 0; epoch < 6; ++epoch, schedule.step())
    EXPECT_NEAR(optimizer.lr(), epoch % 2 ? 0.02 : 0.1, 1e-15) << epoch;
}

TEST_F(Ranges, OfOneCycleLR) {
  const auto made = [&](const OneCycleLROptions& o) { OneCycleLR(optimizer, o); };
  EXPECT_THROWS_SAYING(made({.max_lr = 1, .epochs = 3}), ValueError, "total_steps, or epochs and steps_per_epoch");
  EXPECT_THROWS_SAYING(made({.max_lr = 1, .steps_per_epoch = 3}), ValueError, "total_steps, or epochs");
  EXPECT_THROWS_SAYING(made({.max_lr = 1, .epochs = 0, .steps_per_epoch = 3}), ValueError, "got 0 times 3");
  EXPECT_THROWS_SAYING(made({.max_lr = 1, .epochs = 3, .steps_per_epoch = 0}), ValueError, "got 3 times 0");
  for (const double outside : {-0.1, 1.1})
    EXPECT_THROWS_SAYING(made({.max_lr = 1, .total_steps = 9, .pct_start = outside}), ValueError, "pct_start");
  for (const double outside : {-1.0, 0.0, infinity}) {
    EXPECT_THROWS_SAYING(made({.max_lr = outside, .total_steps = 9}), ValueError, "max_lr");
    EXPECT_THROWS_SAYING(made({.max_lr = 1, .total_steps = 9, .div_factor = outside}), ValueError, "div_factor");
    EXPECT_THROWS_SAYING(made({.max_lr = 1, .total_steps = 9, .final_div_factor = outside}), ValueError,
                         "final_div_factor");
  }
  for (const double outside : {-0.1, 1.0})
    EXPECT_THROWS_SAYING(made({.max_lr = 1, .total_steps = 9, .base_momentum = outside}), ValueError, "base_momentum");
  for (const double end : {0.0, 1.0}) made({.max_lr = 1, .total_steps = 9, .pct_start = end, .base_momentum = 0});
  made({.max_lr = 1, .epochs = 1, .steps_per_epoch = 1});
  made({.max_lr = 1, .epochs = 1 << 20, .steps_per_epoch = std::int64_t{1} << 33});
}

TEST_F(Ranges, OfReduceLROnPlateau) {
  const auto made = [&](const ReduceLROnPlateauOptions& o) { ReduceLROnPlateau(optimizer, o); };
  for (const double outside : {-0.5, 0.0, 1.0})
    EXPECT_THROWS_SAYING(made({.factor = outside}), ValueError, "factor must be above 0 and below 1");
  EXPECT_THROWS_SAYING(made({.patience = -1}), ValueError, "patience");
  EXPECT_THROWS_SAYING(made({.cooldown = -1}), ValueError, "cooldown");
  EXPECT_THROWS_SAYING(made({.threshold = -0.1}), ValueError, "threshold");
  EXPECT_THROWS_SAYING(made({.eps = -0.1}), ValueError, "eps");
  EXPECT_THROWS_SAYING(made({.min_lr = -0.1}), ValueError, "min_lr must not be negative, got -0.1");
  made({.patience = 0, .threshold = 0, .cooldown = 0, .eps = 0});
}

TEST_F(Ranges, OfAState) {
  StepLR schedule(optimizer, {.step_size = 2});
  const auto loaded = [&](const char* name, StateDict::Number value) {
    StateDict state = schedule.state_dict();
    EXPECT_TRUE(state.numbers.contains(name));
    state.numbers[name] = value;
    schedule.load_state_dict(state);
  };
  EXPECT_THROWS_SAYING(loaded("last_epoch", std::int64_t{1} << 53), ValueError, "must be a count");
  EXPECT_THROWS_SAYING(loaded("last_epoch", std::int64_t{-1}), ValueError, "must be a count");
  EXPECT_THROWS_SAYING(loaded("base_lrs.0", infinity), ValueError, "'base_lrs.0' must be finite");
  EXPECT_THROWS_SAYING(loaded("last_lr.0", infinity), ValueError, "'last_lr.0' must be finite");
}

TEST_F(Ranges, OfLists) {
  const auto one = std::make_shared<StepLR>(optimizer, StepLROptions{.step_size = 1});
  EXPECT_THROWS_SAYING(ChainedScheduler({nullptr, one}), ValueError, "at least one schedule");
  EXPECT_THROWS_SAYING(SequentialLR(optimizer, {one, one}, {-1}), ValueError, "in ascending order, from 0 on");
}

TEST_F(Ranges, SequentialLROfOneScheduleIsThatSchedule) {
  const auto only = std::make_shared<StepLR>(optimizer, StepLROptions{.step_size = 1, .gamma = 0.5});
  SequentialLR schedule(optimizer, {only}, {});
  for (double lr = 0.1; lr > 0.01; lr /= 2, schedule.step()) EXPECT_EQ(optimizer.lr(), lr);
}

// The rates of each part, from the initial one on; epoch 0 may be a milestone, and parts may be left out.
TEST_F(Ranges, SequentialLRRunsEachPartFromItsMilestoneOn) {
  for (const std::vector<std::int64_t>& milestones : std::vector<std::vector<std::int64_t>>{{60, 80}, {0, 7}, {5, 5}}) {
    optimizer.set_lr(0.1);
    optimizer.param_groups()[0].initial_lr = {};
    SequentialLR schedule(optimizer,
                          {std::make_shared<StepLR>(optimizer, StepLROptions{.step_size = 1, .gamma = 0.9}),
                           std::make_shared<StepLR>(optimizer, StepLROptions{.step_size = 1, .gamma = 0.8}),
                           std::make_shared<StepLR>(optimizer, StepLROptions{.step_size = 2, .gamma = 0.7})},
                          milestones);
    for (int epoch = 0; epoch < 100; ++epoch, schedule.step()) {
      const double expected = epoch >= milestones[1]   ? 0.1 * std::pow(0.7, (epoch - milestones[1]) / 2)
                              : epoch >= milestones[0] ? 0.1 * std::pow(0.8, epoch - milestones[0])
                                                       : 0.1 * std::pow(0.9, epoch);
      ASSERT_NEAR(optimizer.lr(), expected, 1e-12) << milestones[0] << ", epoch " << epoch;
    }
  }
}

// By how much a metric must be better than the best one, 2.
TEST_F(Ranges, OfABetterMetric) {
  struct Case {
    Mode mode;
    ThresholdMode threshold_mode;
    double limit;
  };
  for (const Case& c : {Case{Mode::min, ThresholdMode::rel, 2 * (1 - 0.25)},
                        {Mode::min, ThresholdMode::abs, 2 - 0.25},
                        {Mode::max, ThresholdMode::rel, 2 * (1 + 0.25)},
                        {Mode::max, ThresholdMode::abs, 2 + 0.25}})
    for (const double by : {-0.1, 0.0, 0.1}) {
      ReduceLROnPlateau schedule(optimizer, {.mode = c.mode, .threshold = 0.25, .threshold_mode = c.threshold_mode});
      schedule.step(2);
      schedule.step(c.limit + by);
      const bool is_better = c.mode == Mode::min ? by < 0 : by > 0;
      EXPECT_EQ(schedule.state_dict().number("best"), is_better ? c.limit + by : 2) << c.limit << " + " << by;
    }
}

TEST_F(Ranges, LinearLRIsTheLineFromStartToEnd) {
  for (const double end : {0.0, 0.3, 1.0}) {
    optimizer.set_lr(0.1);
    optimizer.param_groups()[0].initial_lr = {};
    LinearLR schedule(optimizer, {.start_factor = 0.5, .end_factor = end, .total_iters = 7});
    for (int epoch = 0; epoch < 10; ++epoch, schedule.step())
      EXPECT_NEAR(optimizer.lr(), 0.1 * (0.5 + (end - 0.5) * std::min(epoch, 7) / 7), 1e-15) << end << ", " << epoch;
  }
}

TEST_F(Ranges, OneCycleLRLeavesMomentumWhereItIsToldTo) {
  OneCycleLR schedule(optimizer, {.max_lr = 1, .total_steps = 5, .cycle_momentum = false});
  for (int i = 0; i < 4; ++i) {
    schedule.step();
    EXPECT_EQ(*optimizer.param_groups()[0].momentum, 0.9);
  }
}

TEST_F(Ranges, ReduceLROnPlateauLeavesOutAReductionByNoMoreThanEps) {
  for (const double eps : {0.05, 0.0499}) {
    optimizer.set_lr(0.1);
    ReduceLROnPlateau schedule(optimizer, {.factor = 0.5, .patience = 0, .eps = eps});
    schedule.step(1), schedule.step(1);
    EXPECT_EQ(optimizer.lr(), eps == 0.05 ? 0.1 : 0.05);
  }
}

/// Has rates and nothing else.
class Plain final : public Optimizer {
 public:
  Plain() : Optimizer({ones({2}).set_requires_grad()}, "plain") {}

 private:
  void prepare(const std::vector<Tensor>&) override {}
  void launch() override {}
  void set_step_params() override {}
  std::span<const std::byte> step_params() const override { return {}; }
};

TEST(OptimizerOfYourOwn, SaysWhatAnAddedGroupNeeds) {
  Plain plain;
  EXPECT_THROWS_SAYING(plain.add_param_group({.params = {ones({3}).set_requires_grad()}}), NotImplemented,
                       "plain: this optimizer does not override resize_states()");
  EXPECT_EQ(plain.parameters().size(), 1u);
}

TEST(OneCycleLROfNoMomentum, CyclesTheRateAlone) {
  Plain plain;
  OneCycleLR schedule(plain, {.max_lr = 1, .total_steps = 5, .cycle_momentum = false});
  schedule.step();
  EXPECT_THROWS_SAYING(OneCycleLR(plain, {.max_lr = 1, .total_steps = 5}), ValueError,
                       "cycle_momentum needs an optimizer with momentum or betas");
}

}  // namespace
}  // namespace bytetape::optim::lr_scheduler
