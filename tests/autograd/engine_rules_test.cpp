// Rules that a test writes, and what the engine makes of what they give.
#include "bytetape/autograd/anomaly.h"
#include "bytetape/autograd/engine.h"

#include <cmath>
#include <stdexcept>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;
using test::random_tensor;

/// y = x; its backward does what the test says.
struct ScriptedBackward final : Node {
  std::function<void(const Grads&, InputGrads&)> script;
  void backward(const Grads& gy, InputGrads& gx) override { script(gy, gx); }
};
Tensor scripted(const Tensor& x, std::function<void(const Grads&, InputGrads&)> script) {
  const memory::Op<"scripted"> op;
  Tensor y = clone(x.detach());
  if (auto* node = record<ScriptedBackward>(y, x)) node->script = std::move(script);
  return y;
}

TEST(Backward, LeavesTheGraphCleanAfterAnException) {
  Tensor x = random_leaf({3});
  bool fails = true;
  const Tensor y = scripted(x * x, [&](const Grads& gy, InputGrads& gx) {
    if (fails) throw std::runtime_error("no luck");
    gx[0] = gy[0];
  });
  const Tensor z = sum(y + x * x * x);
  EXPECT_THROWS_SAYING(z.backward({}, true), std::runtime_error, "no luck");
  x.set_grad({});
  fails = false;
  z.backward();
  EXPECT_TRUE(all_close(x.grad(), (2 * x + 3 * x * x).detach()));
}

TEST(Backward, ChecksWhatARuleGives) {
  const Tensor x = random_leaf({3});
  const auto run = [&](const Tensor& wrong) {
    sum(scripted(x, [&](const Grads&, InputGrads& gx) { gx[0] = wrong; })).backward();
  };
  EXPECT_THROWS_SAYING(run(random_tensor({2})), AutogradError,
                       "scripted: its backward, for input 0, gave the gradient f64(2,) on cpu, where f64(3,) on cpu");
  EXPECT_THROWS_SAYING(run(random_tensor({3}, DType::f32)), AutogradError, "f32(3,)");
  EXPECT_THROWS_SAYING(run(zeros({3}, DType::f64, Device::meta())), AutogradError, "on meta");
  EXPECT_FALSE(x.grad().defined());
}

TEST(Backward, DropsAGradientThatNobodyNeeds) {
  struct GenerousBackward final : Node {
    void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gx[1] = gy[0]; }
  };
  const Tensor x = random_leaf({3}), constant = random_tensor({3}), seed = random_tensor({3});
  const Tensor y = clone(x.detach());
  record<GenerousBackward>(y, x, constant);
  y.backward(seed);
  EXPECT_TRUE(all_close(x.grad(), seed));
}

// 16 bits may wait to be widened on a leaf, where nobody looks before the end; no other dtype may, and nothing strided.
TEST(Backward, TakesADenseGradientOf16BitsForALeafAlone) {
  const Tensor x = random_leaf({3}, DType::f32);
  const auto giving = [](const Tensor& on, const Tensor& g) {
    return sum(scripted(on, [=](const Grads&, InputGrads& gx) { gx[0] = g; }));
  };
  const Tensor low = random_tensor({3}, DType::bf16);
  const Tensor strided = expand(random_tensor({1}, DType::bf16), {3});
  giving(x, low).backward();
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  EXPECT_TRUE(all_close(x.grad(), to(low, DType::f32)));
  const char* words = "was due";
  EXPECT_THROWS_SAYING(giving(x, strided).backward(), AutogradError, words);
  EXPECT_THROWS_SAYING(giving(x, random_tensor({3})).backward(), AutogradError, words);
  EXPECT_THROWS_SAYING(giving(x * 1, low).backward(), AutogradError, words) << "no leaf";
  EXPECT_THROWS_SAYING(grad({giving(x, low)}, {x}), AutogradError, words) << "which the caller gets as it is";
  const DetectAnomaly looks;
  EXPECT_THROWS_SAYING(giving(x, low).backward(), AutogradError, words);
}

TEST(Backward, AsksForNoLowGradientThatNobodyNeeds) {
  struct AskingBackward final : Node {
    void backward(const Grads& gy, InputGrads& gx) override {
      EXPECT_TRUE(gx.may_stay_low(0));
      EXPECT_FALSE(gx.may_stay_low(1));
      gx[0] = gy[0];
    }
  };
  const Tensor x = random_leaf({3}, DType::f32), constant = random_tensor({3}, DType::f32);
  const Tensor y = clone(x.detach());
  record<AskingBackward>(y, x, constant);
  sum(y).backward();
}

TEST(Grad, RunsOnlyWhatLeadsToItsInputs) {
  const Tensor x = random_leaf({3}), w = random_leaf({3});
  bool ran = false;
  const auto must_not_run = [&](const Grads& gy, InputGrads& gx) {
    ran = true;
    gx[0] = gy[0];
  };
  const Tensor y = scripted(x, must_not_run) * 2;
  EXPECT_TRUE(all_close(grad({sum(y * w)}, {w})[0], y.detach()));
  EXPECT_TRUE(all_close(grad({sum(y * w)}, {y})[0], w.detach()));
  EXPECT_FALSE(ran);
}

/// y = a; remembers which of its inputs were asked for.
struct AskedBackward final : Node {
  static inline std::vector<bool> asked;
  void backward(const Grads& gy, InputGrads& gx) override {
    asked = {gx.needs(0), gx.needs(1)};
    if (gx.needs(0)) gx[0] = gy[0];
    if (gx.needs(1)) gx[1] = gy[0];
  }
};

TEST(Grad, TellsARuleWhichInputsAreAskedFor) {
  const Tensor a = random_leaf({2}), b = random_leaf({2}), y = clone(a.detach());
  record<AskedBackward>(y, a, b);
  grad({sum(y)}, {b}, {.retain_graph = true});
  EXPECT_EQ(AskedBackward::asked, (std::vector<bool>{false, true}));
  sum(y).backward();
  EXPECT_EQ(AskedBackward::asked, (std::vector<bool>{true, true}));
}

TEST(Grad, OfAUsedInputWithoutInfluenceIsZero) {
  const Tensor x = random_leaf({3});
  const Tensor y = scripted(x, [](const Grads&, InputGrads&) {});
  EXPECT_TRUE(all_close(grad({sum(y)}, {x})[0], zeros({3}, DType::f64)));
}

TEST(Grad, SaysWhichOpCannotBeDifferentiatedAgain) {
  struct FusedBackward final : Node {
    void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0]; }
    bool differentiable() const override { return false; }
  };
  const Tensor x = random_leaf({3}), y = clone(x.detach());
  {
    const memory::Op<"fused"> op;
    record<FusedBackward>(y, x);
  }
  EXPECT_THROWS_SAYING(grad({sum(y)}, {x}, {.create_graph = true}), AutogradError,
                       "fused: its backward is a fused rule that cannot be differentiated again (create_graph)");
  EXPECT_TRUE(all_close(grad({sum(y)}, {x})[0], ones({3}, DType::f64)));
}

TEST(Backward, FindsANaNThatARuleGives) {
  const Tensor x = random_leaf({3}), broken = full({3}, NAN, DType::f64);
  const auto run = [&] { sum(scripted(x, [&](const Grads&, InputGrads& gx) { gx[0] = broken; })).backward(); };
  run();
  const DetectAnomaly detect;
  EXPECT_THROWS_SAYING(run(), AutogradError, "scripted: a gradient made by backward, f64(3,) on cpu, holds a NaN");
}

// batch_norm with ReLU takes its gradient as two tensors, unless somebody is to see the sum.
TEST(Backward, ShowsAHookThatCameMeanwhileTheSum) {
  const Tensor x = random_leaf({4, 3}), z = random_leaf({4, 3}), c = random_tensor({4, 3}), d = random_tensor({4, 3});
  const Tensor y = batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, Activation::relu), between = z * 3;
  Tensor seen;
  between.register_hook([&](const Tensor&) {
    y.register_hook([&](const Tensor& g) { return seen = clone(g), Tensor(); });
    return Tensor();
  });
  const Tensor first = y * c, second = y * d;
  sum(first + second + between).backward();
  ASSERT_TRUE(seen.defined());
  EXPECT_TRUE(all_close(seen, c + d));
}

// Elements that share memory are no place to add up in, though they take up all of it.
TEST(Backward, AddsToNoExpandedGradient) {
  const Tensor x = random_leaf({2, 3}), y = x * 1;
  const Tensor other = y * 2;
  const Tensor later = scripted(y, [](const Grads&, InputGrads& gx) {
    gx[0] = expand(narrow(ones({2, 3}, DType::f64), 1, 0, 1), {2, 3});
  });
  sum(other + later).backward();
  EXPECT_TRUE(all_close(x.grad(), full({2, 3}, 3, DType::f64)));
}

// The graph has more paths than a run could take one by one.
TEST(Grad, GoesThroughEachNodeOnce) {
  const Tensor x = random_leaf({2});
  Tensor y = x;
  for (int i = 0; i < 64; ++i) y = y * 0.5 + y * 0.5;
  EXPECT_TRUE(all_close(grad({sum(y)}, {x})[0], ones({2}, DType::f64)));
}

TEST(Backward, RefusesASeedForAViewLeftBehind) {
  Tensor h = random_leaf({3}) * 1;
  const Tensor v = view(h, {3});
  relu_(h);
  EXPECT_THROWS_SAYING(exp(v), AutogradError, "is a view taken before 'relu_'");
  EXPECT_THROWS_SAYING(v.backward(ones({3}, DType::f64)), AutogradError, "is a view taken before 'relu_'");
  EXPECT_THROWS_SAYING(grad({v}, {h}, {.seeds = {ones({3}, DType::f64)}}), AutogradError, "is a view taken before");
}

// Both gradients are recorded, though the program holds the first as well, and the one before stays as it was.
TEST(Backward, AddsUpRecordedGradientsOutOfPlace) {
  const Tensor values = random_tensor({3});
  for (const bool holds : {true, false}) {
    Tensor x = clone(values).set_requires_grad(), kept;
    if (holds) x.register_hook([&](const Tensor& g) { return kept = g, Tensor(); });
    sum(x * x * x).backward({}, false, true);
    const Tensor first = x.grad();
    EXPECT_TRUE(all_close(grad({sum(first)}, {x}, {.retain_graph = true})[0], (6 * x).detach()));
    sum(x * x).backward({}, false, true);
    EXPECT_TRUE(all_close(first.detach(), (3 * x * x).detach()));
    EXPECT_TRUE(all_close(x.grad().detach(), (3 * x * x + 2 * x).detach()));
    EXPECT_TRUE(all_close(grad({sum(x.grad())}, {x})[0], (6 * x + 2).detach()));
    x.set_grad({});  // which leads back to x
  }
}

TEST(Backward, LeavesALeafAloneThatRequiresNoGradNow) {
  Tensor x = random_leaf({3}), w = random_leaf({3});
  x.set_requires_grad(false);
  sum(x * w).backward();
  EXPECT_FALSE(x.grad().defined());
  x.set_requires_grad();
  const Tensor y = sum(x * w);
  x.set_requires_grad(false);  // between forward and backward
  y.backward();
  EXPECT_FALSE(x.grad().defined());
}

}  // namespace
}  // namespace bytetape
