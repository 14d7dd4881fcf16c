// A gradient scaler and a captured step, and the order of what both are asked.
#include <optional>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape::optim {
namespace {

/// What is trained on a device that only counts.
struct Scaled {
  const Device twin = Device::meta(Device::cuda());
  const DefaultDevice here{twin};
  Tensor p = ones({4}).set_requires_grad();
  SGD sgd{{p}, {.lr = 0.1}};
  GradScaler scaler;
  void backward() { scaler.scale(sum(p * p)).backward(); }
};

TEST(GradScalerInACapturedStep, MayBeUpdatedOutside) {
  Scaled s;
  auto step = capture([&] {
    s.sgd.zero_grad();
    s.backward();
    s.scaler.step(s.sgd);
  });
  for (int i = 0; i < 6; ++i) {
    step();
    EXPECT_EQ(step.is_captured(), i >= 2);
    if (i >= 2) {
      EXPECT_THROWS_SAYING(step(), ValueError, "step() was already called for this optimizer since the last");
    }
    s.scaler.update();
    EXPECT_THROWS_SAYING(s.scaler.update(), ValueError, "update() must follow a step()");
  }
}

TEST(GradScalerInACapturedStep, MayBeSteppedOutside) {
  Scaled s;
  auto unscaled = capture([&] {
    s.backward();
    s.scaler.unscale_(s.sgd);
  });
  auto update = capture([&] { s.scaler.update(); });
  for (int i = 0; i < 6; ++i) {
    s.sgd.zero_grad();
    unscaled();
    EXPECT_THROWS_SAYING(s.scaler.unscale_(s.sgd), ValueError,
                         "unscale_() was already called for this optimizer since");
    s.scaler.step(s.sgd);
    update();
  }
  EXPECT_TRUE(update.is_captured());
}

TEST(GradScalerInACapturedStep, MayMeetAnOptimizerThere) {
  Scaled s;
  Tensor q = ones({4}).set_requires_grad();
  SGD other({q}, {.lr = 0.1});
  int calls = 0;
  auto step = capture([&] {
    s.sgd.zero_grad(), other.zero_grad();
    s.scaler.scale(sum(s.p * q)).backward();
    s.scaler.step(s.sgd);
    if (calls++ < 2)
      other.step();
    else
      s.scaler.step(other);
  });
  for (int i = 0; i < 6; ++i) {
    step();
    EXPECT_EQ(step.is_captured(), i >= 2);
    if (i >= 2) {
      EXPECT_THROWS_SAYING(s.scaler.step(other), ValueError, "step() was already called for this optimizer");
    }
    s.scaler.update();
  }
}

TEST(OptimizerInACapturedStep, MissesAParameterThatIsReplacedAndStaysWhereItWas) {
  const DefaultDevice here(Device::meta(Device::cuda()));
  nn::Linear layer(3, 2);
  SGD sgd(layer.parameters(), {.lr = 0.1});
  auto step = capture([&] {
    sgd.zero_grad();
    sum(layer(ones({4, 3}))).backward();
    sgd.step();
  });
  for (int i = 0; i < 4; ++i) step();
  const Tensor old = layer.weight;
  layer.weight = randn({2, 3});
  EXPECT_THROWS_SAYING(step(), CaptureError, "parameter 0, f32(2, 3) on ");
  layer.weight = old;
  EXPECT_NO_THROW(step());
}

TEST(GradScalerInACapturedStep, MustOutliveIt) {
  Scaled s;
  std::optional<GradScaler> scaler(std::in_place);
  auto step = capture([&] {
    s.sgd.zero_grad();
    scaler->scale(sum(s.p * s.p)).backward();
    scaler->step(s.sgd);
    scaler->update();
  });
  for (int i = 0; i < 4; ++i) step();
  scaler.reset();
  EXPECT_THROWS_SAYING(step(), CaptureError, "the gradient scaler of a captured step was destroyed");
}

TEST(GradScalerInACapturedStep, IsReplayedFromWhereItWasRecorded) {
  Scaled s;
  auto step = capture([&] {
    s.sgd.zero_grad();
    s.backward();
    s.scaler.step(s.sgd);
    s.scaler.update();
  });
  for (int i = 0; i < 4; ++i) step();
  s.sgd.zero_grad();
  s.backward();
  s.scaler.unscale_(s.sgd);
  EXPECT_THROWS_SAYING(step(), ValueError, "a captured step must start at the same point");
  s.scaler.step(s.sgd);
  EXPECT_THROWS_SAYING(step(), ValueError, "step() was already called for this optimizer since the last update()");
  s.scaler.update();
  step();
}

TEST(GradScaler, TakesOneStepAnUpdateWhateverIsZeroed) {
  const Tensor p = ones({4}, DType::f64).set_requires_grad();
  SGD sgd({p}, {.lr = 0.1});
  GradScaler scaler;
  scaler.scale(sum(p * p)).backward();
  scaler.step(sgd);
  sgd.zero_grad();
  scaler.scale(sum(p * p)).backward();
  EXPECT_THROWS_SAYING(scaler.step(sgd), ValueError,
                       "step() was already called for this optimizer since the last update()");
}

// What was scaled or unscaled in between is not differentiated with numbers of later.
TEST(GradScaler, TellsTheTapeOfWhatItWrites) {
  const Tensor p = randn({4}).set_requires_grad(), v = randn({4}).set_requires_grad();
  SGD sgd({p}, {.lr = 0.1});
  GradScaler scaler({.growth_interval = 1});
  const auto backward = [&] {
    sgd.zero_grad();
    scaler.scale(sum(p * p)).backward();
  };
  backward();
  const Tensor of_gradient = sum(v * p.grad());
  scaler.unscale_(sgd);
  EXPECT_THROW(of_gradient.backward(), AutogradError);
  const Tensor before_update = scaler.scale(sum(v * v));
  scaler.step(sgd);
  scaler.update();
  EXPECT_THROW(before_update.backward(), AutogradError);
  const Tensor before_loading = scaler.scale(sum(v * v));
  scaler.load_state_dict(scaler.state_dict());
  EXPECT_THROW(before_loading.backward(), AutogradError);
}

TEST(GradScaler, TakesNoStateOfOthers) {
  GradScaler scaler;
  const StateDict good = scaler.state_dict();
  StateDict more = good, bad = good;
  more.numbers["momentum"] = 0.9;
  bad.numbers["backoff_factor"] = 1.5;
  EXPECT_THROWS_SAYING(scaler.load_state_dict(more), ValueError, "unexpected number 'momentum'");
  EXPECT_THROWS_SAYING(scaler.load_state_dict(bad), ValueError, "backoff_factor");
  EXPECT_EQ(scaler.state_dict().numbers, good.numbers);
}

}  // namespace
}  // namespace bytetape::optim
