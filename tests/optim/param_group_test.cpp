#include "bytetape/optim/param_group.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/factories.h"
#include "bytetape/optim/adam.h"
#include "bytetape/optim/grad_scaler.h"
#include "bytetape/optim/lr_scheduler.h"
#include "bytetape/optim/rmsprop.h"
#include "bytetape/optim/sgd.h"
#include "bytetape/optim/step_in_backward.h"
#include "tests/optim/faulty_device.h"

namespace bytetape::optim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor leaf() { return from_vector(std::vector<double>{1, 2}).set_requires_grad(); }
std::vector<double> values(const Tensor& p) { return p.detach().to_vector<double>(); }

TEST(ParamGroup, LeavesOutWhatTheOptimizerWasMadeWith) {
  const Tensor a = leaf(), b = leaf(), c = leaf();
  SGD sgd({{.params = {a, b}}, {.params = {c}, .lr = 0.5, .nesterov = true}}, {.lr = 0.1, .momentum = 0.9});
  ASSERT_EQ(sgd.param_groups().size(), 2u);
  const ParamGroup &first = sgd.param_groups()[0], &second = sgd.param_groups()[1];
  EXPECT_EQ(first.lr, 0.1);
  EXPECT_EQ(first.nesterov, false);
  EXPECT_EQ(second.lr, 0.5);
  EXPECT_EQ(second.momentum, 0.9);
  EXPECT_EQ(second.nesterov, true);
  EXPECT_FALSE(second.betas || second.eps || second.initial_lr);
  EXPECT_EQ(sgd.parameters().size(), 3u);
  EXPECT_TRUE(sgd.parameters()[2].is_same(c));
  EXPECT_EQ(sgd.lr(), 0.1);
}

TEST(ParamGroup, MayBeChangedBetweenSteps) {
  Tensor a = leaf(), b = leaf();
  SGD sgd({{.params = {a}}, {.params = {b}, .lr = 1}}, {.lr = 0.5});
  const auto step = [&] {
    for (Tensor* p : {&a, &b}) p->set_grad(from_vector(std::vector<double>{1, -1}));
    sgd.step();
  };
  step();
  EXPECT_THAT(values(a), ElementsAre(0.5, 2.5));
  EXPECT_THAT(values(b), ElementsAre(0, 3));
  for (ParamGroup& g : sgd.param_groups()) g.lr = *g.lr / 2;
  sgd.param_groups()[1].weight_decay = 1;
  step();
  EXPECT_THAT(values(a), ElementsAre(0.25, 2.75));
  EXPECT_THAT(values(b), ElementsAre(-0.5, 2));
  sgd.set_lr(0.25);
  EXPECT_EQ(sgd.param_groups()[1].lr, 0.25);
  sgd.param_groups()[1].weight_decay.reset();  // goes by the optimizer's again
  sgd.param_groups()[0].lr.reset();
  EXPECT_EQ(sgd.lr(), 0.5);
  EXPECT_EQ(sgd.param_groups()[0].lr, 0.5);
  sgd.param_groups()[0].lr.reset();
  EXPECT_EQ(sgd.state_dict().number("param_groups.0.lr"), 0.5);
  sgd.param_groups()[0].lr.reset();
  lr_scheduler::StepLR schedule(sgd, {.step_size = 1});
  EXPECT_THAT(schedule.get_last_lr(), ElementsAre(0.5, 0.25));
  sgd.set_lr(0.25);
  step();
  EXPECT_THAT(values(a), ElementsAre(0, 3));
  EXPECT_THAT(values(b), ElementsAre(-0.75, 2.25));
}

TEST(ParamGroup, ThatIsOutOfRangeMovesNothing) {
  Tensor a = leaf(), b = leaf();
  Adam adam({{.params = {a}}, {.params = {b}}});
  a.set_grad(ones({2}, DType::f64));
  adam.param_groups()[1].betas = {{0.9, 1.5}};
  EXPECT_THAT([&] { adam.step(); },
              ThrowsMessage<ValueError>(HasSubstr("adam: betas[1] must be at least 0 and below 1")));
  adam.param_groups()[1].betas.reset();
  adam.param_groups()[0].lr = -1;
  EXPECT_THAT([&] { adam.step(); }, ThrowsMessage<ValueError>(HasSubstr("adam: lr must not be negative, got -1")));
  EXPECT_THAT(values(a), ElementsAre(1, 2));
}

TEST(ParamGroup, ThatIsOutOfRangeIsNotLoaded) {
  Tensor a = leaf();
  Adam adam({a}, {.lr = 0.5});
  a.set_grad(ones({2}, DType::f64));
  adam.step();
  StateDict state = adam.state_dict();
  state.numbers["param_groups.0.lr"] = -1.0;
  EXPECT_THAT([&] { adam.load_state_dict(state); },
              ThrowsMessage<ValueError>(HasSubstr("adam: lr must not be negative, got -1")));
  EXPECT_EQ(*adam.param_groups()[0].lr, 0.5);
  adam.step();
}

template <class O, class Options>
auto maker(const Options& options) {
  return [=](std::vector<ParamGroup> groups) { return std::make_unique<O>(std::move(groups), options); };
}
using Make = std::function<std::unique_ptr<Optimizer>(std::vector<ParamGroup>)>;
const std::pair<const char*, Make> makes[] = {
    {"SGD", maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.3})},
    {"Adam", maker<Adam>(AdamOptions{.lr = 0.1})},
    {"AdamW", maker<AdamW>(AdamWOptions{.lr = 0.1})},
    {"RMSprop", maker<RMSprop>(RMSpropOptions{.lr = 0.1, .momentum = 0.9, .centered = true})},
};

class AddedGroup : public testing::TestWithParam<std::pair<const char*, Make>> {};
INSTANTIATE_TEST_SUITE_P(, AddedGroup, testing::ValuesIn(makes), [](const auto& i) { return i.param.first; });

// As if the groups had two optimizers.
TEST_P(AddedGroup, TakesItsOwnStepsFromThenOn) {
  Tensor a = leaf(), b = leaf(), c = leaf(), d = leaf();
  const auto& make = GetParam().second;
  const auto one = make({{.params = {a}}}), first = make({{.params = {c}}}),
             second = make({{.params = {d}, .lr = 0.03}});
  for (int i = 0; i < 6; ++i) {
    if (i == 3) one->add_param_group({.params = {b}, .lr = 0.03});
    for (Tensor* p : {&a, &b, &c, &d}) p->set_grad(from_vector(std::vector<double>{1.0 + i, -1}));
    one->step(), first->step();
    if (i >= 3) second->step();
    EXPECT_EQ(values(a), values(c)) << i;
    EXPECT_EQ(values(b), values(d)) << i;
  }
  ASSERT_EQ(one->param_groups().size(), 2u);
  EXPECT_EQ(one->param_groups()[1].lr, 0.03);
  EXPECT_EQ(one->param_groups()[1].weight_decay, one->param_groups()[0].weight_decay);
  const StateDict state = one->state_dict();
  EXPECT_EQ(state.integer("state.0.step"), 6);
  EXPECT_EQ(state.integer("state.1.step"), 3);

  Tensor e = from_vector(values(a)).set_requires_grad(), f = from_vector(values(b)).set_requires_grad();
  const auto resumed = make({{.params = {e}}});
  EXPECT_THAT([&] { resumed->load_state_dict(state); },
              ThrowsMessage<ValueError>(HasSubstr("number 'param_groups.1.lr'")));
  resumed->add_param_group({.params = {f}});
  resumed->load_state_dict(state);
  for (Tensor* p : {&a, &b, &e, &f}) p->set_grad(from_vector(std::vector<double>{0.5, 2}));
  one->step(), resumed->step();
  EXPECT_EQ(values(e), values(a));
  EXPECT_EQ(values(f), values(b));
}

TEST_P(AddedGroup, ThatIsRefusedChangesNothing) {
  Tensor a = leaf(), b = leaf();
  const auto optimizer = GetParam().second({{.params = {a}}});
  const auto add = [&](ParamGroup group) { return [&, group] { optimizer->add_param_group(group); }; };
  EXPECT_THAT(
      add({.params = {b, a}}),
      ThrowsMessage<ValueError>(HasSubstr("parameter 2, f64(2,) on cpu, appears twice: it is parameter 0 too")));
  EXPECT_THAT(add({.params = {b}, .lr = -1}), ThrowsMessage<ValueError>(HasSubstr("lr must not be negative, got -1")));
  EXPECT_THAT(add({.params = {b * 2}}), ThrowsMessage<ValueError>(HasSubstr("must be a leaf")));
  EXPECT_THAT(add({.params = {empty({2}, DType::f64, Device::meta())}}),
              ThrowsMessage<DeviceError>(HasSubstr("different devices")));
  EXPECT_EQ(optimizer->param_groups().size(), 1u);
  EXPECT_EQ(optimizer->parameters().size(), 1u);
  optimizer->add_param_group({.params = {b}});
  b.set_grad(ones({2}, DType::f64));
  optimizer->step();
  EXPECT_NE(values(b), (std::vector<double>{1, 2}));
}

// The device's counts of skipped steps have a place for each parameter.
TEST_P(AddedGroup, LeavesTheCountsOfSkippedSteps) {
  FaultyDevice faulty;
  const auto there = [](double x) {
    return from_vector(std::vector<double>{x, -x}, {2}, FaultyDevice::device).set_requires_grad();
  };
  Tensor a = there(1), b = there(2), c = there(1), d = there(2);
  const auto disturbed = GetParam().second({{.params = {a}}}), undisturbed = GetParam().second({{.params = {c}}});
  const auto step = [&](Optimizer& optimizer, double g) {
    for (Tensor p : optimizer.parameters()) p.set_grad(there(g).detach());
    optimizer.step();
  };
  step(*disturbed, 1), step(*undisturbed, 1);
  faulty.leave_fault();
  step(*disturbed, 7);
  faulty.throw_fault();
  disturbed->add_param_group({.params = {b}});
  undisturbed->add_param_group({.params = {d}});
  for (const double g : {2.0, 3.0}) step(*disturbed, g), step(*undisturbed, g);
  EXPECT_EQ(values(a), values(c));
  EXPECT_EQ(values(b), values(d));
  const StateDict state = disturbed->state_dict();
  EXPECT_EQ(state.integer("state.0.step"), 3);
  EXPECT_EQ(state.integer("state.1.step"), 2);
}

TEST(AddParamGroup, IsRefusedWhereTheOptimizerLacksItsOption) {
  SGD sgd({leaf()});
  EXPECT_THAT([&] { sgd.add_param_group({.params = {leaf()}, .eps = 1e-3}); },
              ThrowsMessage<ValueError>(HasSubstr("sgd: a parameter group has eps, which is not an option")));
}

TEST(AddParamGroup, IsUnderAGradientScalerToo) {
  Tensor a = leaf(), b = leaf(), c = leaf(), d = leaf();
  Adam scaled({a}, {.lr = 0.1}), plain({c}, {.lr = 0.1});
  GradScaler scaler;
  for (int i = 0; i < 6; ++i) {
    if (i == 3) scaled.add_param_group({.params = {b}}), plain.add_param_group({.params = {d}});
    const bool overflows = i == 1 || i == 4;
    const double factor = overflows ? std::numeric_limits<double>::infinity() : 1.0 + i;
    scaled.zero_grad(), plain.zero_grad();
    scaler.scale(sum(a * a * factor) + (i >= 3 ? sum(b * b * factor) : zeros({}, DType::f64))).backward();
    scaler.step(scaled);
    scaler.update();
    if (overflows) continue;
    (sum(c * c * factor) + (i >= 3 ? sum(d * d * factor) : zeros({}, DType::f64))).backward();
    plain.step();
    EXPECT_EQ(values(a), values(c)) << i;
    EXPECT_EQ(values(b), values(d)) << i;
  }
}

TEST(AddParamGroup, NeedsANewStepInBackward) {
  Tensor a = leaf(), b = leaf();
  SGD sgd({a}, {.lr = 0.1});
  const StepInBackward steps(sgd);
  sgd.add_param_group({.params = {b}});
  EXPECT_THAT([&] { sum(a * b).backward(); }, ThrowsMessage<ValueError>(HasSubstr("make a new StepInBackward")));
}

TEST(ParamGroup, IsRefusedWhereTheOptimizerLacksItsOption) {
  const Tensor a = leaf(), b = leaf();
  EXPECT_THAT(
      [&] {
        SGD({{.params = {a}}, {.params = {b}, .eps = 1e-3}});
      },
      ThrowsMessage<ValueError>(HasSubstr("sgd: a parameter group has eps, which is not an option")));
  EXPECT_THAT([&] { Adam({{.params = {a}, .momentum = 0.9}}); }, ThrowsMessage<ValueError>(HasSubstr("has momentum")));
  EXPECT_THAT([&] { SGD({{.params = {a}}, {.params = {a}}}); }, ThrowsMessage<ValueError>(HasSubstr("appears twice")));
  EXPECT_THAT([&] { SGD({{.params = {a}, .lr = -0.5}}); }, ThrowsMessage<ValueError>(HasSubstr("got -0.5")));
  EXPECT_THAT([&] { SGD(std::vector<ParamGroup>{}); }, ThrowsMessage<ValueError>(HasSubstr("at least one parameter")));
}

}  // namespace
}  // namespace bytetape::optim
