// Schedules whose rates are a closed formula of the epoch, for all groups, also after a state was loaded.
#include <cmath>
#include <functional>
#include <memory>
#include <numbers>

#include "bytetape/core/factories.h"
#include "bytetape/optim/lr_scheduler.h"
#include "bytetape/optim/sgd.h"
#include "tests/support/expect.h"

namespace bytetape::optim::lr_scheduler {
namespace {

using Make = std::function<std::unique_ptr<LRScheduler>(Optimizer&)>;

void expect_rates(const Make& make, const std::function<double(std::int64_t epoch, double base)>& rate) {
  const auto leaf = [] { return ones({2}).set_requires_grad(); };
  const auto optimizer = [&] { return SGD({{.params = {leaf()}}, {.params = {leaf()}, .lr = 0.02}}, {.lr = 0.1}); };
  SGD first = optimizer();
  const auto schedule = make(first);
  for (std::int64_t epoch = 0; epoch < 40; ++epoch, schedule->step()) {
    EXPECT_NEAR(*first.param_groups()[0].lr, rate(epoch, 0.1), 1e-15) << epoch;
    EXPECT_NEAR(*first.param_groups()[1].lr, rate(epoch, 0.02), 1e-15) << epoch;
    if (epoch != 17) continue;
    SGD second = optimizer();
    const auto resumed = make(second);
    resumed->load_state_dict(schedule->state_dict());
    second.load_state_dict(first.state_dict());
    resumed->step();
    EXPECT_NEAR(*second.param_groups()[1].lr, rate(18, 0.02), 1e-15);
  }
}

TEST(LRSchedules, MultiStepLRChangesAtItsMilestones) {
  expect_rates(
      [](Optimizer& o) {
        return std::make_unique<MultiStepLR>(o, MultiStepLROptions{.milestones = {18, 5, 30, 30}, .gamma = 0.5});
      },
      [](std::int64_t epoch, double base) {
        const int times = (epoch >= 5) + (epoch >= 18) + 2 * (epoch >= 30);
        return base * std::pow(0.5, times);
      });
}

TEST(LRSchedules, ExponentialLRChangesEachEpoch) {
  expect_rates([](Optimizer& o) { return std::make_unique<ExponentialLR>(o, ExponentialLROptions{.gamma = 0.9}); },
               [](std::int64_t epoch, double base) { return base * std::pow(0.9, static_cast<double>(epoch)); });
  SGD sgd({ones({2}).set_requires_grad()}, {.lr = 0.1});
  EXPECT_THROWS_SAYING(ExponentialLR(sgd, {}), ValueError, "ExponentialLR needs a positive gamma, got 0");
}

TEST(LRSchedules, CosineAnnealingWarmRestartsAtGrowingDistances) {
  const auto rate = [](double passed, double period, double base) {
    return 0.01 + (base - 0.01) * (1 + std::cos(std::numbers::pi * passed / period)) / 2;
  };
  const auto make = [](const CosineAnnealingWarmRestartsOptions& options) {
    return [options](Optimizer& o) { return std::make_unique<CosineAnnealingWarmRestarts>(o, options); };
  };
  expect_rates(make({.T_0 = 7, .eta_min = 0.01}),
               [&](std::int64_t epoch, double base) { return rate(static_cast<double>(epoch % 7), 7, base); });
  expect_rates(make({.T_0 = 3, .T_mult = 2, .eta_min = 0.01}), [&](std::int64_t epoch, double base) {
    const std::int64_t start = epoch < 3 ? 0 : epoch < 9 ? 3 : epoch < 21 ? 9 : 21;  // of 3, 6, 12 and 24 epochs
    return rate(static_cast<double>(epoch - start), static_cast<double>(start + 3), base);
  });
  SGD sgd({ones({2}).set_requires_grad()}, {.lr = 0.1});
  EXPECT_THROWS_SAYING(CosineAnnealingWarmRestarts(sgd, {.T_0 = 0}), ValueError, "at least 1, got 0 and 1");
  EXPECT_THROWS_SAYING(CosineAnnealingWarmRestarts(sgd, {.T_0 = 1, .T_mult = 0}), ValueError,
                       "at least 1, got 1 and 0");
  EXPECT_THROWS_SAYING(CosineAnnealingWarmRestarts(sgd, {.T_0 = 1, .eta_min = -1}), ValueError, "eta_min");
}

}  // namespace
}  // namespace bytetape::optim::lr_scheduler
