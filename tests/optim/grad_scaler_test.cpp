#include "bytetape/optim/grad_scaler.h"

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "bytetape/bytetape.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::optim {
namespace {

using Values = std::vector<double>;
constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

Tensor leaf(const Values& values, DType dtype = DType::f64) {
  return test::make_tensor(values, {static_cast<std::int64_t>(values.size())}, dtype).set_requires_grad();
}
/// The gradient of a loss that is `g` times p, scaled.
void backward(GradScaler& scaler, const Tensor& p, const Values& g) {
  scaler.scale(sum(p * test::make_tensor(g, p.shape(), p.dtype()))).backward();
}

StateDict state_of(double scale, double growth_factor, double backoff_factor, std::int64_t growth_interval,
                   std::int64_t growth_tracker) {
  StateDict state;
  state.numbers = {{"scale", scale},
                   {"growth_factor", growth_factor},
                   {"backoff_factor", backoff_factor},
                   {"growth_interval", growth_interval},
                   {"growth_tracker", growth_tracker}};
  return state;
}

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)> make;
};
const Kind kinds[] = {
    {"sgd", [](auto p) { return std::make_unique<SGD>(p, SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.4}); }},
    {"adam", [](auto p) { return std::make_unique<Adam>(p, AdamOptions{.lr = 0.1, .weight_decay = 0.1}); }},
    {"adamw", [](auto p) { return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.1, .weight_decay = 0.1}); }},
    {"rmsprop", [](auto p) { return std::make_unique<RMSprop>(p, RMSpropOptions{.lr = 0.1, .momentum = 0.9}); }},
};

class ScaledSteps : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(, ScaledSteps, testing::ValuesIn(kinds), [](const auto& i) { return i.param.name; });

// The scale is a power of two, so that no bit is lost on the way.
TEST_P(ScaledSteps, AreTheOthersWithoutThoseThatOverflow) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Values start = test::random_tensor({7}).to_vector<double>();
    const Tensor a = leaf(start, dtype), b = leaf({0.5}, dtype), plain_a = leaf(start, dtype),
                 plain_b = leaf({0.5}, dtype);
    const auto scaled = GetParam().make({a, b}), plain = GetParam().make({plain_a, plain_b});
    GradScaler scaler({.growth_interval = 3});
    double scale = 65536;
    std::int32_t tracker = 0;
    for (int i = 0; i < 40; ++i) {
      const bool overflows = i == 0 || i == 5 || i == 6 || i % 11 == 7, moves_b = i % 4 != 3;
      Values g = test::random_tensor({7}).to_vector<double>();
      scaled->zero_grad(), plain->zero_grad();
      sum(plain_a * test::make_tensor(g, {7}, dtype)).backward();
      if (overflows) g[i % 7] = i % 2 ? nan : -infinity;
      backward(scaler, a, g);
      if (moves_b) backward(scaler, b, {0.25}), sum(plain_b * 0.25).backward();
      EXPECT_EQ(scaler.get_scale(), scale);
      scaler.step(*scaled);
      scaler.update();
      if (!overflows) plain->step();
      ASSERT_EQ(a.to_vector<double>(), plain_a.to_vector<double>()) << "step " << i;
      ASSERT_EQ(b.to_vector<double>(), plain_b.to_vector<double>()) << "step " << i;
      // torch.amp.GradScaler's rule
      tracker = overflows ? 0 : tracker + 1;
      if (overflows) scale *= 0.5;
      if (tracker == 3) scale *= 2, tracker = 0;
      ASSERT_EQ(scaler.state_dict().numbers, state_of(scale, 2, 0.5, 3, tracker).numbers) << "step " << i;
    }
  }
}

TEST_P(ScaledSteps, MayTakeTurnsWithPlainOnes) {
  Tensor a = leaf({1, 2}), plain_a = leaf({1, 2});
  const auto optimizer = GetParam().make({a}), plain = GetParam().make({plain_a});
  GradScaler scaler;
  for (int i = 0; i < 12; ++i) {
    const bool overflows = i == 1 || i == 6, is_scaled = i % 3 != 2;
    optimizer->zero_grad(), plain->zero_grad();
    if (is_scaled) {
      backward(scaler, a, {overflows ? infinity : i + 1.0, -1});
      scaler.step(*optimizer);
      scaler.update();
    } else {
      a.set_grad(test::make_tensor({i + 1.0, -1}, {2}));
      optimizer->step();
    }
    plain_a.set_grad(test::make_tensor({i + 1.0, -1}, {2}));
    if (!overflows) plain->step();
    ASSERT_EQ(a.to_vector<double>(), plain_a.to_vector<double>()) << "step " << i;
  }
}

TEST(GradScaler, IsAdamOfTheStepsThatWereTaken) {
  const double lr = 0.1, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  const Tensor p = leaf({0.3});
  Adam adam({p}, {.lr = lr});
  GradScaler scaler;
  double x = 0.3, m = 0, v = 0;
  int t = 0;
  for (const double g : {infinity, 0.7, -0.2, nan, -infinity, 1.3, 0.01}) {
    adam.zero_grad();
    backward(scaler, p, {g});
    scaler.step(adam);
    scaler.update();
    if (std::isfinite(g)) {
      ++t;
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g * g;
      x -= lr * (m / (1 - std::pow(beta1, t))) / (std::sqrt(v / (1 - std::pow(beta2, t))) + eps);
    }
    EXPECT_NEAR(p.detach().item<double>(), x, 1e-12);
  }
  EXPECT_EQ(scaler.get_scale(), 65536.0 / 8);
}

TEST(GradScaler, UnscalesForWhoeverLooks) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    Tensor p = leaf({1, 2, 3}, dtype), twin = leaf({1, 2, 3}, dtype);
    SGD sgd({p}, {.lr = 1}), plain({twin}, {.lr = 1});
    GradScaler scaler({.init_scale = 1024});
    backward(scaler, p, {3, 0, -4});
    EXPECT_EQ(p.grad().to_vector<double>(), (Values{3 * 1024, 0, -4 * 1024}));
    scaler.unscale_(sgd);
    EXPECT_EQ(p.grad().to_vector<double>(), (Values{3, 0, -4}));
    EXPECT_EQ(clip_grad_norm_({p}, 2.5).item<double>(), 5);
    twin.set_grad(test::make_tensor({3, 0, -4}, {3}, dtype));
    clip_grad_norm_({twin}, 2.5);
    scaler.step(sgd);
    plain.step();
    EXPECT_EQ(p.to_vector<double>(), twin.to_vector<double>());
  }
}

TEST(GradScaler, SkipsTheOptimizerThatOverflowedAlone) {
  for (const bool is_first : {true, false}) {
    const Tensor a = leaf({1}), b = leaf({1});
    SGD first({a}, {.lr = 1}), second({b}, {.lr = 1});
    GradScaler scaler({.init_scale = 8});
    backward(scaler, a, {is_first ? infinity : 0.5});
    backward(scaler, b, {is_first ? 0.5 : infinity});
    scaler.step(first);
    scaler.step(second);
    scaler.update();
    EXPECT_EQ(a.detach().item<double>(), is_first ? 1 : 0.5);
    EXPECT_EQ(b.detach().item<double>(), is_first ? 0.5 : 1);
    EXPECT_EQ(scaler.get_scale(), 4);
  }
}

TEST(GradScaler, TellsAnOptimizerFromOneThatIsGone) {
  const Tensor a = leaf({1}), b = leaf({1});
  SGD second({b}, {.lr = 1});
  GradScaler scaler({.init_scale = 8});
  {
    SGD first({a}, {.lr = 1});
    backward(scaler, a, {infinity});
    scaler.step(first);
  }
  backward(scaler, b, {0.5});
  scaler.step(second);
  scaler.update();
  EXPECT_EQ(b.detach().item<double>(), 0.5);
  EXPECT_EQ(scaler.get_scale(), 4);
}

TEST(GradScaler, Serves64OptimizersAtATime) {
  const Tensor p = leaf({1});
  GradScaler scaler;
  const auto step = [&](SGD& sgd) {
    backward(scaler, p, {0});
    scaler.step(sgd);
    scaler.update();
  };
  for (int i = 0; i < 100; ++i) {
    SGD gone({p}, {.lr = 1});
    step(gone);
  }
  std::vector<std::unique_ptr<SGD>> all;
  for (int i = 0; i < 64; ++i) step(*all.emplace_back(std::make_unique<SGD>(std::vector{p}, SGDOptions{.lr = 1})));
  SGD one_more({p}, {.lr = 1});
  EXPECT_THROWS_SAYING(step(one_more), ValueError, "at most 64 optimizers");
}

// A gradient in another layout than its parameter's is copied for the step, after it was unscaled.
TEST(GradScaler, TakesGradientsOfOtherLayouts) {
  Tensor p = channels_last(test::random_tensor({2, 3, 2, 2})).set_requires_grad();
  const Values before = p.to_vector<double>();
  const Tensor g = test::random_tensor({2, 3, 2, 2});
  SGD sgd({p}, {.lr = 1});
  GradScaler scaler;
  scaler.scale(zeros({}));
  p.set_grad(g * 65536.0);
  scaler.step(sgd);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(p.to_vector<double>()[i], before[i] - g.to_vector<double>()[i]);
  EXPECT_EQ(p.grad().to_vector<double>(), g.to_vector<double>());
}

TEST(GradScaler, KeepsSmallGradientsOfHalf) {
  const Tensor x = ones({4, 8});
  const auto gradient_of = [&](bool enabled) {
    manual_seed(2);
    nn::Linear fc(8, 4);
    SGD sgd(fc.parameters(), {.lr = 0});
    GradScaler scaler({.enabled = enabled});
    {
      const Autocast autocast(DType::f16);
      scaler.scale(sum(fc(x)) * 1e-9).backward();  // 0 in f16
    }
    scaler.unscale_(sgd);
    return fc.weight.grad().to_vector<double>()[0];
  };
  EXPECT_NEAR(gradient_of(true), 4e-9, 4e-11);
  EXPECT_EQ(gradient_of(false), 0);
}

TEST(GradScaler, DoesNothingWhereDisabled) {
  const Tensor p = leaf({2});
  SGD sgd({p}, {.lr = 1});
  GradScaler scaler({.enabled = false});
  const Tensor loss = sum(p * 0.5);
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  loss.backward();
  scaler.unscale_(sgd);
  scaler.step(sgd);
  scaler.update();
  EXPECT_EQ(p.detach().item<double>(), 1.5);
  EXPECT_EQ(scaler.get_scale(), 1);
}

TEST(GradScaler, StopsGrowingAtTheEndOfF32) {
  const Tensor p = leaf({1});
  SGD sgd({p}, {.lr = 0});
  GradScaler scaler({.init_scale = 0x1p127, .growth_interval = 1});
  for (int i = 0; i < 2; ++i) {
    sgd.zero_grad();
    backward(scaler, p, {1});
    scaler.step(sgd);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), 0x1p127);
  }
}

// Smaller ones have no inverse in f32: it would make NaN of the zeros that they make of gradients.
TEST(GradScaler, StopsBackingOffAtTheEndOfF32) {
  const Tensor p = leaf({1});
  SGD sgd({p}, {.lr = 0.25});
  GradScaler scaler({.init_scale = 0x1p-125});
  for (const double scale : {0x1p-126, 0x1p-126}) {
    sgd.zero_grad();
    backward(scaler, p, {infinity});
    scaler.step(sgd);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), scale);
  }
  scaler.load_state_dict(scaler.state_dict());
  sgd.zero_grad();
  backward(scaler, p, {1});
  scaler.step(sgd);
  EXPECT_EQ(p.detach().item<double>(), 0.75);
}

TEST(GradScaler, GoesOnFromItsState) {
  const Tensor p = leaf({1});
  SGD sgd({p}, {.lr = 1});
  const auto step = [&](GradScaler& scaler, double g) {
    sgd.zero_grad();
    backward(scaler, p, {g});
    scaler.step(sgd);
    scaler.update();
  };
  GradScaler first({.init_scale = 64, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 5}), second, third;
  step(first, infinity), step(first, 1), step(first, 1);
  const StateDict state = state_of(16, 4, 0.25, 5, 2);
  EXPECT_EQ(first.state_dict().numbers, state.numbers);
  second.load_state_dict(state);  // before its first loss
  step(third, 1);
  third.load_state_dict(state);
  for (GradScaler* scaler : {&second, &third}) {
    EXPECT_EQ(scaler->state_dict().numbers, state.numbers);
    for (int i = 0; i < 3; ++i) step(*scaler, 1);
    EXPECT_EQ(scaler->state_dict().numbers, state_of(64, 4, 0.25, 5, 0).numbers);
  }
}

// By itself, or from the forward on.
TEST(GradScaler, TakesAFailedStepAgain) {
  enum class Failing { never, step, whole_step };
  const auto train = [](Failing failing) {
    manual_seed(4);
    const Tensor p = randn(3 << 20).set_requires_grad();
    Adam adam({p});
    GradScaler scaler;
    const auto backward = [&] {
      adam.zero_grad();
      scaler.scale(sum(p * p)).backward();
    };
    for (int i = 0; i < 2; ++i) {
      backward();
      if (failing != Failing::never && i == 0) {
        memory::empty_cache(p.device());
        const std::size_t limit = memory::snapshot(p.device()).limit;
        memory::set_limit(memory::stats(p.device()).reserved.current + (4 << 20), p.device());
        EXPECT_THROW(scaler.step(adam), OutOfMemory);  // its averages
        memory::set_limit(limit, p.device());
        if (failing == Failing::whole_step) backward();
      }
      if (failing == Failing::whole_step && i == 1) {
        scaler.unscale_(adam);  // and then something else throws
        backward();
      }
      scaler.step(adam);
      scaler.update();
    }
    return p.to_vector<float>();
  };
  const auto expected = train(Failing::never);
  EXPECT_TRUE(train(Failing::step) == expected);
  EXPECT_TRUE(train(Failing::whole_step) == expected);
}

TEST(GradScaler, HasTheEventsOfTheRealOneOnMeta) {
  const auto program = [](Device device) {
    const DefaultDevice here(device);
    nn::Sequential net(nn::Linear(20, 30), nn::ReLU(), nn::Linear(30, 5));
    Adam adam(net.parameters());
    GradScaler scaler;
    for (int i = 0; i < 3; ++i) {
      adam.zero_grad();
      const Tensor x = randn({8, 20}), y = zeros(8, DType::i64);
      Tensor loss;
      {
        const Autocast autocast(DType::f16);
        loss = cross_entropy(net(x), y);
      }
      scaler.scale(loss).backward();
      scaler.unscale_(adam);
      clip_grad_norm_(net.parameters(), 1);
      scaler.step(adam);
      scaler.update();
    }
  };
  const auto on_cpu = test::record_events(Device::cpu(), program);
  const auto on_meta = test::record_events(Device::meta(), program);
  EXPECT_GT(on_cpu.size(), 50u);
  EXPECT_EQ(test::first_difference(on_cpu, on_meta), "");
}

TEST(GradScaler, RefusesBadOrder) {
  const Tensor p = leaf({1});
  SGD sgd({p}, {.lr = 1});
  GradScaler scaler;
  EXPECT_THROWS_SAYING(scaler.step(sgd), ValueError, "grad_scaler: no loss was scaled yet");
  EXPECT_THROWS_SAYING(scaler.scale(zeros({2}, DType::i64)), DTypeError, "expected a floating dtype");
  backward(scaler, p, {1});
  EXPECT_THROWS_SAYING(scaler.update(), ValueError, "update() must follow a step()");
  scaler.unscale_(sgd);
  EXPECT_THROWS_SAYING(scaler.unscale_(sgd), ValueError,
                       "unscale_() was already called for this optimizer since the last update()");
  scaler.step(sgd);
  EXPECT_THROWS_SAYING(scaler.step(sgd), ValueError,
                       "step() was already called for this optimizer since the last update()");
  EXPECT_THROWS_SAYING(scaler.unscale_(sgd), ValueError, "unscale_() must be called before step()");
  EXPECT_EQ(p.detach().item<double>(), 0);
  scaler.update();
  EXPECT_THROWS_SAYING(scaler.update(), ValueError, "update() must follow a step()");
  sgd.zero_grad();
  EXPECT_THROWS_SAYING(scaler.step(sgd), ValueError, "no parameter of the optimizer has a gradient");
  EXPECT_THROWS_SAYING(scaler.scale(zeros({}, DType::f32, Device::meta())), DeviceError,
                       "expected a tensor on cpu, where the scale is");
  Tensor half = leaf({1}, DType::f16);
  half.set_grad(ones({1}, DType::f16));
  SGD of_half({half}, {.lr = 1});
  EXPECT_THROWS_SAYING(scaler.unscale_(of_half), DTypeError, "is f16");
  Tensor elsewhere = zeros({2}, DType::f32, Device::meta());
  elsewhere.set_grad(zeros({2}, DType::f32, Device::meta()));
  SGD of_elsewhere({elsewhere}, {.lr = 1});
  EXPECT_THROWS_SAYING(scaler.unscale_(of_elsewhere), DeviceError, "expected a gradient on the scale's device");
}

TEST(GradScaler, RefusesBadOptions) {
  for (const double bad : {0.0, -1.0, infinity, nan, 1e39, 1e-39, 1e-300})
    EXPECT_THROWS_SAYING(GradScaler({.init_scale = bad}), ValueError,
                         "grad_scaler: init_scale must be positive and a normal number of f32");
  for (const double bad : {1.0, 0.5, infinity, nan})
    EXPECT_THROWS_SAYING(GradScaler({.growth_factor = bad}), ValueError, "growth_factor must be above 1");
  for (const double bad : {1.0, 0.0, -0.5, nan})
    EXPECT_THROWS_SAYING(GradScaler({.backoff_factor = bad}), ValueError, "backoff_factor must be above 0 and below 1");
  EXPECT_THROWS_SAYING(GradScaler({.growth_interval = 0}), ValueError, "growth_interval must be at least 1");
  GradScaler scaler;
  EXPECT_THROWS_SAYING(scaler.load_state_dict(state_of(1, 2, 0.5, 3, -1)), ValueError,
                       "growth_tracker must not be negative");
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  EXPECT_THROWS_SAYING(scaler.load_state_dict(state_of(1, 2, 0.5, most + 1, 0)), ValueError, "must fit an i32");
  scaler.load_state_dict(state_of(1, 2, 0.5, most, most));
  EXPECT_EQ(scaler.state_dict().integer("growth_tracker"), most);
}

}  // namespace
}  // namespace bytetape::optim
