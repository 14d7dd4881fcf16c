// Steps that a device skips, as a fault was pending, count as not taken.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>

#include "bytetape/core/factories.h"
#include "bytetape/core/memory/stats.h"
#include "bytetape/optim/adam.h"
#include "bytetape/optim/grad_scaler.h"
#include "bytetape/optim/rmsprop.h"
#include "bytetape/optim/sgd.h"
#include "tests/optim/faulty_device.h"

namespace bytetape::optim {
namespace {

constexpr Device device = FaultyDevice::device;

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)> make;
};
const Kind kinds[] = {
    {"sgd", [](auto p) { return std::make_unique<SGD>(p, SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.4}); }},
    {"adam", [](auto p) { return std::make_unique<Adam>(p, AdamOptions{.lr = 0.1}); }},
    {"adamw", [](auto p) { return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.1}); }},
    {"rmsprop", [](auto p) { return std::make_unique<RMSprop>(p, RMSpropOptions{.lr = 0.1, .momentum = 0.9}); }},
};

using Values = std::vector<double>;

Tensor on_device(const Values& values) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())}, device);
}

/// Two parameters and their optimizer.
struct Training {
  std::vector<Tensor> parameters{on_device({1, 2, 3}).set_requires_grad(), on_device({-1}).set_requires_grad()};
  std::unique_ptr<Optimizer> optimizer;

  explicit Training(const Kind& kind) : optimizer(kind.make(parameters)) {}
  /// With gradients that depend on `seed`; of the second parameter only where `both`.
  void step(double seed, bool both = true) {
    parameters[0].set_grad(on_device({seed, -1, 2 * seed}));
    parameters[1].set_grad(both ? on_device({1 / seed}) : Tensor());
    optimizer->step();
  }
  std::vector<Values> values() const { return {parameters[0].to_vector<double>(), parameters[1].to_vector<double>()}; }
};

class SkippedSteps : public testing::TestWithParam<Kind> {
 protected:
  FaultyDevice faulty;
};
INSTANTIATE_TEST_SUITE_P(, SkippedSteps, testing::ValuesIn(kinds), [](const auto& i) { return i.param.name; });

TEST_P(SkippedSteps, CountAsNotTaken) {
  Training disturbed(GetParam()), undisturbed(GetParam());
  const auto both_step = [&](double seed, bool both = true) {
    disturbed.step(seed, both);
    undisturbed.step(seed, both);
  };
  for (int round = 0; round < 3; ++round) {
    both_step(round + 1);
    both_step(round + 2, false);
    const auto before = disturbed.values();
    faulty.leave_fault();
    disturbed.step(7);
    disturbed.step(8, false);  // several, before the host looks
    disturbed.step(9);
    EXPECT_EQ(disturbed.values(), before);
    faulty.throw_fault();
    both_step(round + 0.5);
    ASSERT_EQ(disturbed.values(), undisturbed.values()) << "round " << round;
  }
}

TEST_P(SkippedSteps, AreNotCountedInAStateThatIsSavedMeanwhile) {
  Training training(GetParam());
  training.step(1);
  faulty.leave_fault();
  training.step(2);
  EXPECT_EQ(training.optimizer->state_dict().integer("state.0.step"), 1);
  faulty.throw_fault();
  training.step(3);
  EXPECT_EQ(training.optimizer->state_dict().integer("state.0.step"), 2);
}

TEST_P(SkippedSteps, MayBeTheFirst) {
  Training disturbed(GetParam()), undisturbed(GetParam());
  faulty.leave_fault();
  disturbed.step(5);
  faulty.throw_fault();
  for (int i = 1; i < 4; ++i) {
    disturbed.step(i);
    undisturbed.step(i);
    EXPECT_EQ(disturbed.values(), undisturbed.values());
  }
}

TEST_P(SkippedSteps, AreNoneWhereTheFaultWasThrownBefore) {
  Training disturbed(GetParam()), undisturbed(GetParam());
  for (int i = 1; i < 6; ++i) {
    faulty.leave_fault();
    faulty.throw_fault();
    disturbed.step(i);
    undisturbed.step(i);
    EXPECT_EQ(disturbed.values(), undisturbed.values());
  }
}

// The device takes off what it skipped for either reason, without the host's looking.
TEST_P(SkippedSteps, CountAsNotTakenUnderAScalerToo) {
  Training disturbed(GetParam()), undisturbed(GetParam());
  GradScaler scaler({.growth_interval = 4});
  scaler.scale(on_device({1}));
  const auto scaled_step = [&](double seed) {
    const double scale = scaler.get_scale();
    disturbed.parameters[0].set_grad(on_device({seed * scale, -1 * scale, 2 * seed * scale}));
    disturbed.parameters[1].set_grad(on_device({1 / seed * scale}));
    scaler.step(*disturbed.optimizer);
    scaler.update();
  };
  double expected_scale = 65536;
  for (int round = 0; round < 3; ++round) {
    scaled_step(round + 1);
    undisturbed.step(round + 1);
    faulty.leave_fault();
    scaled_step(7);
    EXPECT_EQ(scaler.state_dict().integer("growth_tracker"), 1) << "no step, of whatever kind";
    faulty.throw_fault();
    scaled_step(std::numeric_limits<double>::infinity());
    EXPECT_EQ(scaler.get_scale(), expected_scale /= 2);
    scaled_step(round + 0.5);
    undisturbed.step(round + 0.5);
    disturbed.step(round + 2);  // without the scaler the host has to know
    undisturbed.step(round + 2);
    ASSERT_EQ(disturbed.values(), undisturbed.values()) << "round " << round;
    scaled_step(std::numeric_limits<double>::infinity());  // the tracker begins each round at 0
    expected_scale /= 2;
  }
}

TEST_P(SkippedSteps, AreNotInAState) {
  Training training(GetParam());
  training.step(2);
  faulty.leave_fault();
  training.step(3);  // the host does not know yet
  EXPECT_EQ(training.optimizer->state_dict().integer("state.0.step"), 1);
  faulty.throw_fault();
}

TEST_P(SkippedSteps, AreForgottenWithTheStateThatIsLeft) {
  Training training(GetParam());
  training.step(2);
  const StateDict state = training.optimizer->state_dict();
  faulty.leave_fault();
  training.step(3), training.step(4);
  faulty.throw_fault();
  training.optimizer->load_state_dict(state);
  EXPECT_EQ(training.optimizer->state_dict().numbers, state.numbers);
  training.step(5);
  EXPECT_EQ(training.optimizer->state_dict().integer("state.0.step"), 2);
}

// What counts them is on the books of the device, and nowhere on the CPU, which throws at once.
TEST(SkippedStepCounts, AreOptimizerState) {
  const FaultyDevice faulty;
  const auto state = [] {
    return memory::stats(device).by_role[static_cast<int>(memory::Role::optimizer_state)].current;
  };
  const std::size_t before = state();
  Tensor p = on_device({1, 2});
  SGD sgd({p}, {.lr = 0.1});
  p.set_grad(on_device({1, 1}));
  EXPECT_EQ(state(), before);
  sgd.step();
  EXPECT_EQ(state(), before + 512);
  sgd.step();
  EXPECT_EQ(state(), before + 512);
}

/// A parameter of a device that it was moved to, and an optimizer that took one scaled step before and skipped another.
struct Moved {
  Tensor p = from_vector(Values{1, 2}, Shape{2}).set_requires_grad();
  SGD sgd{{p}, {.lr = 0.1}};
  Moved() {
    GradScaler scaler;
    scaler.scale(zeros({}));
    for (const double g : {65536.0, std::numeric_limits<double>::infinity()}) {
      p.set_grad(from_vector(Values{g, 0}));
      scaler.step(sgd);
      scaler.update();
    }
    p.set_grad({});
    p.set_data(on_device({3, 4}));
    p.set_grad(on_device({1, 0}));
  }
};

TEST(SkippedStepCounts, AreBookedWhereTheParametersAre) {
  const FaultyDevice faulty;
  const auto state = [] {
    return memory::stats(device).by_role[static_cast<int>(memory::Role::optimizer_state)].current;
  };
  Moved moved;
  const std::size_t before = state();
  moved.sgd.step();
  EXPECT_EQ(state(), before + 512);
}

TEST(SkippedStepCounts, AreReadBeforeTheirDeviceIsLeft) {
  const FaultyDevice faulty;
  Moved moved;
  moved.sgd.step();
  EXPECT_EQ(moved.sgd.state_dict().integer("state.0.step"), 2) << "one on each device";
}

}  // namespace
}  // namespace bytetape::optim
