// Training that is stopped and goes on in new objects, against training that is not.
#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <memory>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/optim/adam.h"
#include "bytetape/optim/ema.h"
#include "bytetape/optim/grad_scaler.h"
#include "bytetape/optim/lr_scheduler.h"
#include "bytetape/optim/rmsprop.h"
#include "bytetape/optim/sgd.h"
#include "tests/optim/faulty_device.h"
#include "tests/support/random.h"
#include "tests/support/stand_in.h"

namespace bytetape::optim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Values = std::vector<double>;
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(std::vector<ParamGroup>)> make;
};
const Kind kinds[] = {
    {"sgd", [](auto g) { return std::make_unique<SGD>(g, SGDOptions{.lr = 0.1}); }},
    {"momentum",
     [](auto g) { return std::make_unique<SGD>(g, SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.3}); }},
    {"adam", [](auto g) { return std::make_unique<Adam>(g, AdamOptions{.lr = 0.1, .weight_decay = 0.1}); }},
    {"adamw", [](auto g) { return std::make_unique<AdamW>(g, AdamWOptions{.lr = 0.1}); }},
    {"rmsprop", [](auto g) { return std::make_unique<RMSprop>(g, RMSpropOptions{.lr = 0.1}); }},
    {"rmsprop_centered",
     [](auto g) { return std::make_unique<RMSprop>(g, RMSpropOptions{.lr = 0.1, .momentum = 0.9, .centered = true}); }},
};

StateDict copy_of(StateDict state) {
  for (auto& [name, x] : state.tensors) x = clone(x);
  return state;
}

/// Three parameters of two groups, and all that training them has to remember.
struct Training {
  std::vector<Tensor> parameters;
  std::unique_ptr<Optimizer> optimizer;
  lr_scheduler::StepLR schedule;
  EMA ema;
  GradScaler scaler{{.growth_interval = 2}};

  Training(const Kind& kind, const std::vector<Values>& start, Device device)
      : parameters(made(start, device)),
        optimizer(kind.make({{.params = {parameters[0], parameters[1]}}, {.params = {parameters[2]}, .lr = 0.03}})),
        schedule(*optimizer, {.step_size = 3, .gamma = 0.7}),
        ema(parameters, {.decay = 0.8}) {}

  static std::vector<Tensor> made(const std::vector<Values>& values, Device device) {
    std::vector<Tensor> all;
    for (const Values& v : values)
      all.push_back(to(from_vector(std::vector<float>(v.begin(), v.end())), device).set_requires_grad());
    return all;
  }
  /// Gradients come from the step's number; the second parameter has one in every other step, the last from step 5 on.
  void step(int i, bool scaled) {
    optimizer->zero_grad();
    manual_seed(100 + i);
    Tensor loss = zeros({}, DType::f32, parameters[0].device());
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const Tensor factor = to(randn(parameters[k].shape()), parameters[k].device());
      if ((k == 1 && i % 2) || (k == 2 && i < 5)) continue;
      loss = loss + sum(parameters[k] * parameters[k] * factor);
    }
    if (scaled) {
      scaler.scale(loss * (i == 0 || i == 3 || i == 6 ? infinity : 1)).backward();
      scaler.step(*optimizer);
      scaler.update();
    } else {
      loss.backward();
      optimizer->step();
    }
    schedule.step();
    ema.update();
  }
  StateDict state_dict() {
    StateDict all;
    all.add("optimizer", optimizer->state_dict());
    all.add("schedule", schedule.state_dict());
    all.add("ema", ema.state_dict());
    all.add("scaler", scaler.state_dict());
    return all;
  }
  void load_state_dict(const StateDict& state) {
    optimizer->load_state_dict(state.part("optimizer"));
    schedule.load_state_dict(state.part("schedule"));
    ema.load_state_dict(state.part("ema"));
    scaler.load_state_dict(state.part("scaler"));
  }
  std::vector<Values> values() const {
    std::vector<Values> all;
    for (const auto* list : {&parameters, &ema.averages()})
      for (const Tensor& x : *list) all.push_back(x.detach().to_vector<double>());
    return all;
  }
};

class Resumed : public testing::TestWithParam<Kind> {
 protected:
  static void expect_same_bits(bool scaled, Device device) {
    const std::vector<Values> start{test::random_tensor({7}).to_vector<double>(),
                                    test::random_tensor({70}).to_vector<double>(),
                                    test::random_tensor({3}).to_vector<double>()};
    Training whole(GetParam(), start, device);
    std::vector<Values> at_5;
    StateDict saved;
    for (int i = 0; i < 10; ++i) {
      if (i == 5) at_5 = whole.values(), saved = copy_of(whole.state_dict());
      whole.step(i, scaled);
    }
    Training resumed(GetParam(), {at_5[0], at_5[1], at_5[2]}, device);
    resumed.step(1, scaled);  // what it remembers of this is to be forgotten
    for (std::size_t k = 0; k < 3; ++k) copy_(resumed.parameters[k].detach(), from_vector(at_5[k]));
    resumed.load_state_dict(saved);
    for (int i = 5; i < 10; ++i) resumed.step(i, scaled);
    EXPECT_EQ(resumed.values(), whole.values());
    const StateDict found = resumed.state_dict(), expected = whole.state_dict();
    EXPECT_EQ(found.numbers, expected.numbers);
    ASSERT_EQ(found.tensors.size(), expected.tensors.size());
    for (std::size_t i = 0; i < found.tensors.size(); ++i)
      EXPECT_EQ(found.tensors[i].second.to_vector<double>(), expected.tensors[i].second.to_vector<double>());
  }
};
INSTANTIATE_TEST_SUITE_P(, Resumed, testing::ValuesIn(kinds), [](const auto& i) { return i.param.name; });

TEST_P(Resumed, IsTheUninterruptedRunBitForBit) { expect_same_bits(false, Device::cpu()); }
TEST_P(Resumed, IsSoUnderAGradientScaler) { expect_same_bits(true, Device::cpu()); }
TEST_P(Resumed, IsSoOnADeviceThatCountsWhatItSkips) {
  const FaultyDevice faulty;
  for (const bool scaled : {false, true}) expect_same_bits(scaled, FaultyDevice::device);
}

TEST_P(Resumed, MayMoveToAnotherDevice) {
  const std::vector<Values> start{{1, 2}, {3}, {4, 5, 6}};
  const test::StandIn stand_in;
  Training here(GetParam(), start, Device::cpu());
  for (int i = 0; i < 6; ++i) here.step(i, false);
  const auto now = here.values();
  Training there(GetParam(), {now[0], now[1], now[2]}, Device::cuda());
  there.load_state_dict(here.state_dict());
  for (int i = 6; i < 9; ++i) here.step(i, false), there.step(i, false);
  EXPECT_EQ(there.values(), here.values());
}

TEST_P(Resumed, HasPyTorchsNames) {
  Training training(GetParam(), {{1}, {2}, {3}}, Device::cpu());
  for (int i = 0; i < 3; ++i) training.step(i, false);
  const StateDict state = training.optimizer->state_dict();
  EXPECT_EQ(state.integer("state.0.step"), 3);
  EXPECT_EQ(state.integer("state.1.step"), 2);
  EXPECT_FALSE(state.numbers.contains("state.2.step"));  // it has taken none
  EXPECT_EQ(state.number("param_groups.1.lr"), *training.optimizer->param_groups()[1].lr);
  EXPECT_EQ(state.integer("param_groups.0.params"), 2);
  const std::string name = GetParam().name;
  EXPECT_EQ(state.has_tensor("state.1.momentum_buffer"), name == "momentum" || name == "rmsprop_centered");
  EXPECT_EQ(state.has_tensor("state.0.exp_avg_sq"), name.starts_with("adam"));
  EXPECT_EQ(state.has_tensor("state.1.square_avg"), name.starts_with("rmsprop"));
  EXPECT_EQ(state.has_tensor("state.0.grad_avg"), name == "rmsprop_centered");
}

TEST_P(Resumed, IsLeftAloneByAStateThatDoesNotFit) {
  Training training(GetParam(), {{1}, {2}, {3}}, Device::cpu());
  training.step(0, false);
  const StateDict good = copy_of(training.optimizer->state_dict());
  const auto refused = [&](const std::function<void(StateDict&)>& spoil) {
    return [&training, good, spoil] {
      StateDict bad = good;
      spoil(bad);
      training.optimizer->load_state_dict(bad);
    };
  };
  EXPECT_THAT(
      refused([](StateDict& s) { s.numbers.erase("param_groups.1.lr"), s.numbers["param_groups.1.rate"] = 1.0; }),
      ThrowsMessage<ValueError>(AllOf(HasSubstr("missing number 'param_groups.1.lr'"),
                                      HasSubstr("unexpected number 'param_groups.1.rate'"))));
  EXPECT_THAT(refused([](StateDict& s) { s.numbers["state.3.step"] = std::int64_t{1}; }),
              ThrowsMessage<ValueError>(HasSubstr("unexpected number 'state.3.step'")));
  EXPECT_THAT(refused([](StateDict& s) { s.numbers["state.0.step"] = std::int64_t{-1}; }),
              ThrowsMessage<ValueError>(HasSubstr("'state.0.step' must be positive and below 2^53, got -1")));
  static constexpr std::int64_t most = std::int64_t{1} << 53;
  EXPECT_THAT(refused([](StateDict& s) { s.numbers["state.0.step"] = most; }),
              ThrowsMessage<ValueError>(HasSubstr("must be positive and below 2^53, got 9007199254740992")));
  EXPECT_THAT(refused([](StateDict& s) { s.numbers["param_groups.1.params"] = std::int64_t{4}; }),
              ThrowsMessage<ValueError>(HasSubstr("expected a parameter group of 1 parameters in the state, got 4")));
  EXPECT_THAT(refused([](StateDict& s) { s.numbers["state.0.step"] = std::int64_t{0}; }),
              ThrowsMessage<ValueError>(HasSubstr("must be positive")));
  if (!good.tensors.empty()) {
    EXPECT_THAT(refused([](StateDict& s) { s.numbers.erase("state.0.step"); }),
                ThrowsMessage<ValueError>(HasSubstr("the state has no number 'state.0.step'")));
    EXPECT_THAT(refused([](StateDict& s) { s.tensors[0].second = {}; }),
                ThrowsMessage<ShapeError>(HasSubstr("does not fit the parameter")));
    EXPECT_THAT(refused([](StateDict& s) { s.tensors[0].second = ones({5}); }),
                ThrowsMessage<ShapeError>(HasSubstr("does not fit the parameter")));
    EXPECT_THAT(refused([](StateDict& s) { s.tensors[0].second = empty({1}, DType::f32, Device::meta()); }),
                ThrowsMessage<DeviceError>(HasSubstr("holds no data")));
  }
  if (std::string(GetParam().name).starts_with("adam")) {  // SGD's buffer is there with momentum alone
    for (std::size_t i = 0; i < good.tensors.size(); ++i)
      EXPECT_THAT(refused([=](StateDict& s) { s.tensors.erase(s.tensors.begin() + static_cast<std::ptrdiff_t>(i)); }),
                  ThrowsMessage<ValueError>(HasSubstr("the state has no tensor")));
  }
  const StateDict now = training.optimizer->state_dict();
  EXPECT_EQ(now.numbers, good.numbers);
  for (std::size_t i = 0; i < now.tensors.size(); ++i)
    EXPECT_EQ(now.tensors[i].second.to_vector<double>(), good.tensors[i].second.to_vector<double>());
}

TEST_P(Resumed, HasTheFirstRateWhereAScheduleSetOne) {
  const auto made = [] { return GetParam().make({{.params = {ones({2}).set_requires_grad()}}}); };
  const auto with = made(), without = made(), other = made();
  const lr_scheduler::StepLR schedule(*with, {.step_size = 1});
  with->param_groups()[0].initial_lr = 0.7;
  EXPECT_FALSE(without->state_dict().numbers.contains("param_groups.0.initial_lr"));
  other->load_state_dict(with->state_dict());
  EXPECT_EQ(other->param_groups()[0].initial_lr, 0.7);
  other->load_state_dict(without->state_dict());
  EXPECT_EQ(other->param_groups()[0].initial_lr, 0.7) << "it is the schedule's";
}

TEST_P(Resumed, TakesAStateWithoutDataOnAMetaDevice) {
  const test::StandIn stand_in;
  const Device meta = Device::meta(Device::cuda());
  Training training(GetParam(), {{1}, {2}, {3}}, meta), other(GetParam(), {{1}, {2}, {3}}, meta);
  for (int i = 0; i < 3; ++i) training.step(i, true);
  other.optimizer->load_state_dict(training.optimizer->state_dict());
  other.ema.load_state_dict(training.ema.state_dict());
  EXPECT_EQ(other.optimizer->state_dict().numbers, training.optimizer->state_dict().numbers);
}

// Each option comes from the state, whatever the optimizer was made with.
TEST(OptimizerOptions, AreThoseOfTheState) {
  const auto p = [] { return std::vector{ones({2}).set_requires_grad()}; };
  SGD sgd(p(), {.lr = 0.3, .momentum = 0.8, .weight_decay = 0.02, .nesterov = true}), plain(p(), {.lr = 0.1});
  plain.load_state_dict(sgd.state_dict());
  EXPECT_EQ(plain.state_dict().numbers, sgd.state_dict().numbers);
  EXPECT_EQ(plain.param_groups()[0].nesterov, true);
  sgd.load_state_dict(SGD(p(), {.lr = 0.1, .momentum = 0.5, .dampening = 0.2}).state_dict());
  EXPECT_EQ(sgd.param_groups()[0].nesterov, false);
  EXPECT_EQ(sgd.param_groups()[0].dampening, 0.2);
  Adam adam(p(), {.lr = 0.3, .betas = {0.7, 0.95}, .eps = 1e-5, .weight_decay = 0.02}), other(p());
  other.load_state_dict(adam.state_dict());
  EXPECT_EQ(other.state_dict().numbers, adam.state_dict().numbers);
  EXPECT_EQ((*other.param_groups()[0].betas)[0], 0.7);
  EXPECT_EQ((*other.param_groups()[0].betas)[1], 0.95);
  RMSprop rmsprop(p(), {.lr = 0.3, .alpha = 0.7, .momentum = 0.4, .centered = true}), without(p());
  without.load_state_dict(rmsprop.state_dict());
  EXPECT_EQ(without.state_dict().numbers, rmsprop.state_dict().numbers);
  EXPECT_EQ(without.param_groups()[0].alpha, 0.7);
  EXPECT_EQ(without.param_groups()[0].centered, true);
}

}  // namespace
}  // namespace bytetape::optim
