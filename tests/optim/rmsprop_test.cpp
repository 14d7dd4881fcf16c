#include "bytetape/optim/rmsprop.h"

#include <gmock/gmock.h>

#include <cmath>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/memory/stats.h"
#include "bytetape/optim/lr_scheduler.h"
#include "tests/optim/golden.h"
#include "tests/support/expect.h"

namespace bytetape::optim {
namespace {

using golden::run_both;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(RMSprop, EqualsPyTorch) {
  run_both<RMSprop>("rmsprop", RMSpropOptions{});
  run_both<RMSprop>("rmsprop_momentum",
                    RMSpropOptions{.lr = 0.005, .alpha = 0.9, .eps = 1e-6, .weight_decay = 0.05, .momentum = 0.9});
  run_both<RMSprop>("rmsprop_centered", RMSpropOptions{.lr = 0.002, .centered = true});
}

TEST(RMSprop, WithGroupsEqualsPyTorch) {
  const auto make = [](const std::vector<Tensor>& x) -> golden::Training {
    return {.optimizer = std::make_unique<RMSprop>(
                std::vector<ParamGroup>{{.params = {x[0]}, .momentum = 0, .alpha = 0.95},
                                        {.params = {x[1]}, .lr = 0.003, .centered = false}},
                RMSpropOptions{.lr = 0.002, .weight_decay = 0.01, .momentum = 0.8, .centered = true})};
  };
  run_both("rmsprop_groups", make, {3, 4});
}

TEST(RMSprop, UnderOneCycleLREqualsPyTorch) {
  std::unique_ptr<lr_scheduler::OneCycleLR> schedule;
  const auto make = [&](const std::vector<Tensor>& x) -> golden::Training {
    auto rmsprop = std::make_unique<RMSprop>(x, RMSpropOptions{.momentum = 0.9});
    schedule = std::make_unique<lr_scheduler::OneCycleLR>(
        *rmsprop, lr_scheduler::OneCycleLROptions{.max_lr = 0.005, .total_steps = 100});
    return {.optimizer = std::move(rmsprop), .after_step = [&] { schedule->step(); }};
  };
  run_both("rmsprop_one_cycle", make);
}

TEST(RMSprop, NamesTheArgumentThatIsOutOfRange) {
  const auto make = [](const RMSpropOptions& options) { return [=] { RMSprop({randn({3})}, options); }; };
  EXPECT_THAT(make({.lr = -0.1}), ThrowsMessage<ValueError>(HasSubstr("rmsprop: lr must not be negative, got -0.1")));
  EXPECT_THAT(make({.alpha = -1}), ThrowsMessage<ValueError>(HasSubstr("alpha must not be negative")));
  EXPECT_THAT(make({.alpha = std::nan("")}), ThrowsMessage<ValueError>(HasSubstr("alpha must be finite")));
  EXPECT_THAT(make({.eps = -1}), ThrowsMessage<ValueError>(HasSubstr("eps")));
  EXPECT_THAT(make({.weight_decay = -1}), ThrowsMessage<ValueError>(HasSubstr("weight_decay")));
  EXPECT_THAT(make({.momentum = -1}), ThrowsMessage<ValueError>(HasSubstr("momentum")));
}

TEST(RMSprop, KeepsOnlyTheStateThatItsOptionsNeed) {
  const auto held = [] {
    return memory::stats(Device::cpu()).by_role[static_cast<std::size_t>(memory::Role::optimizer_state)].current;
  };
  const auto states = [&](const RMSpropOptions& options) {
    Tensor p = randn({1024});
    p.set_grad(randn({1024}));
    const std::size_t before = held();
    RMSprop rmsprop({p}, options);
    rmsprop.step();
    return (held() - before) / 4096;
  };
  EXPECT_EQ(states({}), 1u);
  EXPECT_EQ(states({.momentum = 0.9}), 2u);
  EXPECT_EQ(states({.centered = true}), 2u);
  EXPECT_EQ(states({.momentum = 0.9, .centered = true}), 3u);
}

// State that is made in a later step starts at 0, in memory that was in use before.
TEST(RMSprop, TakesUpMomentumAndCenteringLater) {
  const Tensor p = randn({300}, DType::f64).set_requires_grad(), factor = randn({300}, DType::f64);
  Tensor expected = clone(p.detach()), v = zeros({300}, DType::f64), b = v, m = v;
  RMSprop rmsprop({p}, {.lr = 0.1, .alpha = 0.9});
  for (int i = 0; i < 6; ++i) {
    if (i == 2) rmsprop.param_groups()[0].momentum = 0.5;
    if (i == 4) rmsprop.param_groups()[0].centered = true;
    rmsprop.zero_grad();
    sum(p * p * factor).backward();
    const Tensor g = clone(p.grad());
    v = v * 0.9 + g * g * 0.1;
    if (i >= 4) m = m * 0.9 + g * 0.1;
    const Tensor d = g / (sqrt(v - m * m) + 1e-8);
    b = i >= 2 ? b * 0.5 + d : b;
    expected = expected - 0.1 * (i >= 2 ? b : d);
    { const Tensor used = full({300}, 7, DType::f64); }
    rmsprop.step();
    EXPECT_TRUE(test::all_close(p.detach(), expected)) << i;
  }
}

}  // namespace
}  // namespace bytetape::optim
