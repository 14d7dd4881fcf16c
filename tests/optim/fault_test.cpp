// Steps that a device skips, as a fault was pending, count as not taken.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "bytetape/core/factories.h"
#include "bytetape/optim/adam.h"
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

// What counts them is on the books of the device, and nowhere on the CPU, which throws at once.
TEST(SkippedStepCounts, AreOptimizerState) {
  const FaultyDevice faulty;
  const auto state = [] {
    return memory::allocator(device).statistics().by_role[static_cast<int>(memory::Role::optimizer_state)].current;
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

}  // namespace
}  // namespace bytetape::optim
