// Captured steps against the same steps as they are, bit for bit, on a device whose kernels are the CPU's.
#include "bytetape/autograd/capture.h"

#include <algorithm>
#include <limits>

#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/stand_in.h"
#include "tests/training/deferred.h"
#include "tests/training/net_training.h"
#include "tests/training/scheduled.h"

namespace bytetape {
namespace {

using test::NetTraining;
using test::Rule;

/// What ten steps of a small residual network come to.
std::vector<std::vector<float>> train(Rule rule, DType computed, bool captured) {
  const DefaultDevice here(Device::cuda());
  NetTraining net(test::small_residual(), rule, computed);
  const auto step = [&](const Tensor& x, const Tensor& y) { return net.step(x, y); };
  auto captured_step = capture(step);
  std::vector<std::vector<float>> left;
  for (int i = 0; i < 10; ++i) {
    net.optimizer->set_lr(0.02 / (i + 1));
    const Tensor x = net.images(), y = net.classes();
    left.push_back((captured ? captured_step(x, y) : step(x, y)).to_vector<float>());
  }
  EXPECT_EQ(captured_step.is_captured(), captured);
  for (auto& values : net.left()) left.push_back(std::move(values));
  return left;
}

/// What twelve steps under a gradient scaler come to, where the losses of steps 1, 4, 5 and 8 overflow.
std::vector<std::vector<float>> train_scaled(Rule rule, bool clips, bool captured) {
  const DefaultDevice here(Device::cuda());
  manual_seed(1);
  nn::Sequential net(nn::Linear(6, 16), nn::ReLU(), nn::Linear(16, 4));
  const auto optimizer = test::make_optimizer(rule, net.parameters());
  optim::GradScaler scaler({.growth_interval = 2});
  const auto step = [&](const Tensor& x, const Tensor& y, const Tensor& boost) {
    optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast autocast(DType::f16);
      loss = cross_entropy(net(x), y);
    }
    scaler.scale(loss * boost).backward();
    if (clips) {
      scaler.unscale_(*optimizer);
      optim::clip_grad_norm_(net.parameters(), 0.1);
    }
    scaler.step(*optimizer);
    scaler.update();
    return loss.detach();
  };
  auto captured_step = capture(step);
  std::vector<std::vector<float>> left;
  for (int i = 0; i < 12; ++i) {
    optimizer->set_lr(0.02 / (i + 1));
    const Tensor x = randn({6, 6}), y = randint(0, 4, {6});
    const bool overflows = i == 1 || i == 4 || i == 5 || i == 8;
    const Tensor boost = full({}, overflows ? std::numeric_limits<double>::infinity() : 1);
    left.push_back((captured ? captured_step(x, y, boost) : step(x, y, boost)).to_vector<float>());
    for (const Tensor& p : net.parameters()) left.push_back(p.detach().to_vector<float>());
    const StateDict state = scaler.state_dict();
    left.push_back({static_cast<float>(state.number("scale")), static_cast<float>(state.number("growth_tracker"))});
  }
  EXPECT_EQ(scaler.get_scale(), 65536.0 / 2 * 2 / 4 * 2 / 2 * 2);
  EXPECT_EQ(captured_step.is_captured(), captured);
  return left;
}

TEST(CapturedTraining, IsTheStepsBitForBit) {
  const test::StandIn stand_in(test::deferred_backend());
  for (const Rule rule : {Rule::sgd, Rule::adam, Rule::rmsprop}) {
    SCOPED_TRACE(test::rule_name(rule));
    for (const DType computed : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(detail::concat(computed));
      EXPECT_EQ(train(rule, computed, true), train(rule, computed, false));
    }
  }
}

TEST(CapturedTraining, HasThePredictedEvents) {
  const test::StandIn stand_in(test::deferred_backend());
  for (const Rule rule : {Rule::sgd, Rule::adam, Rule::rmsprop}) {
    SCOPED_TRACE(test::rule_name(rule));
    const auto program = [&](Device device) { test::train_captured(rule, DType::bf16, device); };
    const auto predicted = test::record_events(Device::meta(Device::cuda()), program);
    const auto real = test::record_events(Device::cuda(), program);
    EXPECT_EQ(test::first_difference(real, predicted), "");
    EXPECT_TRUE(std::any_of(real.begin(), real.end(), [](const memory::Event& e) {
      return e.kind == memory::EventKind::alloc && e.role == memory::Role::workspace && e.bytes > 100'000 &&
             memory::name_of(e.op) == "captured_step";
    })) << "the rest of the pool";
  }
}

TEST(CapturedTraining, IsTheStepsUnderAGradientScaler) {
  const test::StandIn stand_in(test::deferred_backend());
  for (const Rule rule : {Rule::sgd, Rule::adam, Rule::rmsprop})
    for (const bool clips : {false, true})
      EXPECT_EQ(train_scaled(rule, clips, true), train_scaled(rule, clips, false)) << "clips: " << clips;
}

TEST(CapturedTraining, FollowsSchedulesAndOptionsOfGroups) {
  const test::StandIn stand_in(test::deferred_backend());
  const DefaultDevice here(Device::cuda());
  for (const Rule rule : {Rule::sgd, Rule::adam, Rule::rmsprop}) {
    const auto captured = test::train_scheduled(rule, true);
    EXPECT_EQ(captured.size(), 12u + 8u) << "it was captured";
    EXPECT_EQ(captured, test::train_scheduled(rule, false));
  }
}

TEST(CapturedTraining, GoesOnFromAStateThatIsLoaded) {
  const test::StandIn stand_in(test::deferred_backend());
  const DefaultDevice here(Device::cuda());
  for (const Rule rule : {Rule::sgd, Rule::adam, Rule::rmsprop}) {
    const auto train = [&](bool captured) {
      Tensor p = ones({3}).set_requires_grad();
      const auto optimizer = test::make_optimizer(rule, {p});
      const auto step = [&] {
        optimizer->zero_grad();
        sum(p * p).backward();
        optimizer->step();
      };
      auto captured_step = capture(step);
      StateDict saved;
      for (int i = 0; i < 12; ++i) {
        if (i == 5) {
          saved = optimizer->state_dict();
          for (auto& [name, x] : saved.tensors) x = clone(x);
        }
        if (i == 8) optimizer->load_state_dict(saved);  // into the memory that the graph knows
        captured ? captured_step() : step();
      }
      EXPECT_EQ(captured_step.is_captured(), captured);
      return p.detach().to_vector<float>();
    };
    EXPECT_EQ(train(true), train(false));
  }
}

TEST(CapturedTraining, RefusesWhatOnlyTheHostTakes) {
  const test::StandIn stand_in(test::deferred_backend());
  const DefaultDevice here(Device::cuda());
  const Tensor p = ones({2}).set_requires_grad();
  optim::SGD sgd({p}, {.lr = 0.1});
  optim::lr_scheduler::StepLR schedule(sgd, {.step_size = 1});
  const auto train = [&] {
    sgd.zero_grad();
    sum(p * p).backward();
    sgd.step();
  };
  auto with_schedule = capture([&] { train(), schedule.step(); });
  with_schedule(), with_schedule();
  EXPECT_THROWS_SAYING(with_schedule(), CaptureError, "steps a schedule: step it on the host");
  EXPECT_EQ(schedule.last_epoch(), 2);

  auto step = capture(train);
  for (int i = 0; i < 4; ++i) step();
  const auto before = p.detach().to_vector<float>();
  sgd.param_groups()[0].momentum = 0.9;
  EXPECT_THROWS_SAYING(step(), CaptureError, "momentum is 0.9, but was 0 when the step was captured");
  sgd.param_groups()[0].momentum = -1;
  EXPECT_THROWS_SAYING(step(), ValueError, "momentum must not be negative, got -1");
  EXPECT_EQ(p.detach().to_vector<float>(), before);
  sgd.param_groups()[0].momentum = 0;
  step();
  EXPECT_NE(p.detach().to_vector<float>(), before);

  sgd.param_groups()[0].momentum = 0.9;
  train();  // makes the buffer, which the recorded step does not know
  EXPECT_THROWS_SAYING(step(), CaptureError, "momentum is 0.9, but was 0 when the step was captured");
}

TEST(CapturedTraining, RefusesOptionsOfRmspropThatNeedMoreState) {
  const test::StandIn stand_in(test::deferred_backend());
  const DefaultDevice here(Device::cuda());
  const Tensor p = ones({2}).set_requires_grad();
  optim::RMSprop rmsprop({p}, {.lr = 0.1});
  const auto train = [&] {
    rmsprop.zero_grad();
    sum(p * p).backward();
    rmsprop.step();
  };
  auto step = capture(train);
  for (int i = 0; i < 4; ++i) step();
  optim::ParamGroup& group = rmsprop.param_groups()[0];
  const auto expect_refused = [&](const char* words) {
    const auto before = p.detach().to_vector<float>();
    EXPECT_THROWS_SAYING(step(), CaptureError, words);
    EXPECT_EQ(p.detach().to_vector<float>(), before);
  };
  group.momentum = 0.9;
  expect_refused("momentum is 0.9, but was 0 when the step was captured, without momentum buffers");
  group.momentum = 0;
  group.centered = true;
  expect_refused("centered is true, but was false when the step was captured, without averages of the gradients");
  train();  // makes the average, which the recorded step does not know
  expect_refused("centered is true");
  group.centered = false;
  const auto before = p.detach().to_vector<float>();
  step();
  EXPECT_NE(p.detach().to_vector<float>(), before);
}

TEST(CapturedTraining, IsCapturedAgainAfterAGroupIsAdded) {
  const test::StandIn stand_in(test::deferred_backend());
  const DefaultDevice here(Device::cuda());
  const Tensor p = ones({2}).set_requires_grad(), q = ones({3}).set_requires_grad();
  optim::Adam adam({p}, {.lr = 0.1});
  const auto train = [&] {
    adam.zero_grad();
    (sum(p * p) + sum(q * q)).backward();
    adam.step();
  };
  auto step = capture(train);
  for (int i = 0; i < 4; ++i) step();
  adam.add_param_group({.params = {q}});
  const auto before = p.detach().to_vector<float>();
  EXPECT_THROWS_SAYING(step(), CaptureError, "parameters were added to the optimizer since the step was captured");
  EXPECT_EQ(p.detach().to_vector<float>(), before);
  auto again = capture(train);
  for (int i = 0; i < 4; ++i) again();
  EXPECT_TRUE(again.is_captured());
  EXPECT_EQ(adam.state_dict().integer("state.0.step"), 8);
  EXPECT_EQ(adam.state_dict().integer("state.1.step"), 4);

  auto adds = capture([&] {
    train();
    if (detail::core_ambient.capture) adam.add_param_group({.params = {ones({4}).set_requires_grad()}});
  });
  adds(), adds();
  EXPECT_THROWS_SAYING(adds(), CaptureError, "adds a parameter group");
  EXPECT_EQ(adam.param_groups().size(), 2u);
}

// It would forget that the gradients before were dropped, but not that they had overflowed.
TEST(CapturedTraining, LeavesAGradientScalerAsItWasWhereItFails) {
  const test::StandIn stand_in(test::deferred_backend());
  const DefaultDevice here(Device::cuda());
  const Tensor p = ones({2}).set_requires_grad();
  optim::SGD sgd({p}, {.lr = 0.5});
  optim::GradScaler scaler;
  const auto backward = [&](float factor) {
    sgd.zero_grad();
    scaler.scale(sum(p * factor)).backward();
  };
  bool fails = false;
  auto step = capture([&] {
    backward(0);
    scaler.step(sgd);
    scaler.update();
    if (fails) scaler.get_scale();  // waits
  });
  step(), step();
  backward(std::numeric_limits<float>::infinity());
  scaler.unscale_(sgd);
  sgd.zero_grad();
  fails = true;
  EXPECT_THROW(step(), CaptureError);
  backward(1);
  scaler.step(sgd);
  EXPECT_EQ(p.detach().to_vector<float>(), std::vector<float>(2, 0.5));
}

/// What six captured batches, or batches as they are, come to.
std::vector<std::vector<float>> augment(bool captured) {
  const DefaultDevice here(Device::cuda());
  Generator generator(4);
  const auto images = [&](const Tensor& x) {
    return augment_images(x, {.crop_padding = 2, .padding_mode = PaddingMode::reflect, .flip = 0.5, .cutout = 3},
                          generator);
  };
  auto captured_images = capture(images);
  const Tensor x = rand({7, 3, 6, 5});
  std::vector<std::vector<float>> left;
  for (int i = 0; i < 6; ++i) left.push_back((captured ? captured_images(x) : images(x)).to_vector<float>());
  EXPECT_EQ(captured_images.is_captured(), captured);
  EXPECT_EQ(generator.state().offset, 6 * 7 * 2u);
  return left;
}

TEST(CapturedTraining, AugmentsAnewInEachReplay) {
  const test::StandIn stand_in(test::deferred_backend());
  manual_seed(1);
  const auto expected = augment(false);
  manual_seed(1);
  EXPECT_EQ(augment(true), expected);
  EXPECT_NE(expected[4], expected[5]);
}

}  // namespace
}  // namespace bytetape
