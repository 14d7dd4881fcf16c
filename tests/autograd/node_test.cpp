// What the tape holds, until when, and how the ledger books it.
#include "bytetape/autograd/node.h"

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using memory::Role;
using test::all_close;
using test::allocated;
using test::held_as;
using test::random_leaf;
using test::random_tensor;

constexpr std::int64_t n = 256;                  // elements of f64
constexpr std::size_t one = n * sizeof(double);  // bytes of a tensor, a multiple of the rounding

TEST(Tape, FreesTheIntermediatesOfADroppedResultAtOnce) {
  const Tensor x = random_leaf({n});
  const std::size_t before = allocated();
  {
    Tensor y = x * x;
    y = y * y;
    y = y * x;
    EXPECT_EQ(allocated(), before + 3 * one);
    y = Tensor();
    EXPECT_EQ(allocated(), before);
  }
}

TEST(Tape, KeepsOnlyWhatBackwardNeeds) {
  const Tensor x = random_leaf({n}), w = random_tensor({n});
  const std::size_t before = allocated();
  const Tensor y = ((x * w + w) * w) * 2 + 1;  // linear in x: no intermediate is saved
  EXPECT_EQ(allocated(), before + one);
}

TEST(Tape, LetsSavedTensorsGoAsTheirNodesRun) {
  const Tensor x = random_leaf({n});
  const std::size_t before = allocated();
  Tensor a = x * x, b = a * a, c = b * b, y = sum(c);
  std::vector<std::size_t> levels;
  const auto watch = [&](const Tensor&) { return levels.push_back(allocated()), Tensor(); };
  a.register_hook(watch);
  b.register_hook(watch);
  a = b = c = Tensor();
  EXPECT_EQ(allocated(), before + 2 * one + test::rounded(sizeof(double)));  // a, b and the sum: c was not saved
  y.backward();
  // At b's hook c's node has run: b is gone, and b's gradient is there. At a's hook the same with a.
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0] - levels[1], one);
  y = Tensor();
  EXPECT_EQ(allocated(), before + one);  // x.grad
}

/// y = x, keeping a tensor of the test's.
struct KeepingBackward final : Node {
  Saved kept{this};
  static inline bool was_sole_owner = false;
  void backward(const Grads& gy, InputGrads& gx) override {
    was_sole_owner = is_sole_owner(kept.take(gx));
    gx[0] = gy[0];
  }
};
Tensor keeping(const Tensor& x, const Tensor& kept) {
  Tensor y = clone(x.detach());
  if (auto* node = record<KeepingBackward>(y, x)) node->kept.save(kept);
  return y;
}

TEST(Tape, LetsSavedTensorsGoBeforeGradientsAreAddedUp) {
  const Tensor x = random_leaf({n});
  Tensor u = x * 2, y = sum(keeping(u, random_tensor({16 * n}))) + sum(u);  // two gradients meet at u
  u = Tensor();
  memory::reset_peaks();
  const std::size_t before = allocated();
  y.backward();
  EXPECT_LE(memory::stats().allocated.peak, before + 4 * test::rounded(sizeof(double)));
}

TEST(Saved, IsTakenForGoodUnlessTheGraphStays) {
  const Tensor x = random_leaf({n});
  const Tensor y = sum(keeping(x, random_tensor({n})));
  y.backward({}, /*retain_graph=*/true);
  EXPECT_FALSE(KeepingBackward::was_sole_owner);
  y.backward();
  EXPECT_TRUE(KeepingBackward::was_sole_owner);
}

TEST(Tape, HoldsALeafAndItsGradientNoLonger) {
  const std::size_t before = allocated();
  {
    const Tensor x = random_leaf({n});
    sum(x * x).backward();
  }
  EXPECT_EQ(allocated(), before);
}

TEST(Tape, FreesEverythingAfterAFailedBackward) {
  const std::size_t before = allocated();
  {
    const Tensor x = random_leaf({n}), w = random_leaf({n});
    Tensor y = x * x;
    const Tensor z = y * w;
    y += 1;
    EXPECT_THROW(sum(z).backward(), AutogradError);
  }
  EXPECT_EQ(allocated(), before);
}

TEST(Roles, SavedComesAndGoes) {
  const Tensor x = random_leaf({n});
  Tensor y = x * 2;
  EXPECT_EQ(y.storage().role(), Role::temporary);
  const std::size_t saved = held_as(Role::saved);
  {
    const Tensor z = y * y, other = y * y;
    EXPECT_EQ(y.storage().role(), Role::saved);
    EXPECT_EQ(held_as(Role::saved), saved + one);
    sum(z).backward({}, true);
    EXPECT_EQ(y.storage().role(), Role::saved);
    sum(other).backward();
    EXPECT_EQ(y.storage().role(), Role::saved) << "z still holds it";
  }
  EXPECT_EQ(y.storage().role(), Role::temporary) << "y itself is still held by the test";
  EXPECT_EQ(held_as(Role::saved), saved);
}

TEST(Roles, SavedEndsWithBackward) {
  const Tensor x = random_leaf({n});
  const Tensor y = x * 2, z = sum(y * y);
  EXPECT_EQ(y.storage().role(), Role::saved);
  z.backward();
  EXPECT_EQ(y.storage().role(), Role::temporary);
}

TEST(Roles, OfParametersAndInputsStay) {
  Tensor w = random_leaf({n});
  const Tensor x = empty({n}, DType::f64, {}, Role::input);
  w.storage().set_role(Role::parameter, memory::intern("net.w"));
  const Tensor y = sum(x * w);
  EXPECT_EQ(x.storage().role(), Role::input);
  EXPECT_EQ(w.storage().role(), Role::parameter);
  y.backward();
  EXPECT_EQ(x.storage().role(), Role::input);
  EXPECT_EQ(w.storage().role(), Role::parameter);
}

TEST(Roles, GradientIsBookedUnderItsLeafsModule) {
  Tensor w = random_leaf({n});
  const memory::NameId module = memory::intern("net.gradient_module");
  w.storage().set_role(Role::parameter, module);
  const std::size_t gradients = held_as(Role::gradient);
  sum(w * w).backward();
  EXPECT_EQ(w.grad().storage().role(), Role::gradient);
  EXPECT_EQ(w.grad().storage().module(), module);
  EXPECT_EQ(held_as(Role::gradient), gradients + one);
  const auto by_module = memory::snapshot({}).by_module;
  EXPECT_EQ(by_module.at(module)[static_cast<std::size_t>(Role::gradient)], one);
  const Tensor kept = w.grad();
  w.set_grad({});
  EXPECT_EQ(kept.storage().role(), Role::temporary);
  EXPECT_EQ(held_as(Role::gradient), gradients);
}

// Adding to a gradient, and dropping one, is no change of role; one that the program holds on its own is no gradient.
TEST(Roles, AGradientIsOneUntilAnotherTakesItsPlace) {
  int retags = 0;
  for (const memory::Event& e : test::record_events(Device::cpu(), [](Device) {
         Tensor x = random_leaf({n});
         for (int i = 0; i < 2; ++i) sum(x * 2).backward();
         x.set_grad(x.grad());
         x.set_grad(random_tensor({n}));
         x.set_grad({});
       }))
    retags += e.kind == memory::EventKind::retag && e.old_role == Role::gradient;
  EXPECT_EQ(retags, 0);
  Tensor x = random_leaf({n});
  sum(x * 2).backward();
  const Tensor held = x.grad();
  x.set_grad(random_tensor({n}));
  EXPECT_EQ(held.storage().role(), Role::temporary);
  EXPECT_EQ(x.grad().storage().role(), Role::gradient);
}

TEST(Roles, EveryByteOfBackwardHasAnOp) {
  const Tensor x = random_leaf({n}), w = random_leaf({n});
  const Tensor y = sum(x * w + x);
  memory::reset_log();
  y.backward();
  int allocations = 0;
  for (const memory::Event& e : memory::snapshot().events) {
    if (e.kind != memory::EventKind::alloc) continue;
    ++allocations;
    EXPECT_NE(e.op, 0u);
    EXPECT_EQ(e.phase, memory::Phase::backward);
  }
  EXPECT_GT(allocations, 0);
}

TEST(Backward, ReentersTheScopeOfTheForwardOp) {
  const Tensor x = random_leaf({n});
  Tensor y;
  {
    const memory::ModuleScope module(memory::intern("net.fc1"));
    y = x * x;
  }
  const memory::ModuleScope outer(memory::intern("elsewhere"));
  y.register_hook([](const Tensor&) {
    EXPECT_EQ(memory::name_of(memory::ambient.scope.module), "net.fc1");
    EXPECT_EQ(memory::name_of(memory::ambient.scope.op), "mul");
    EXPECT_EQ(memory::ambient.scope.phase, memory::Phase::backward);
    return Tensor();
  });
  sum(y).backward();
  EXPECT_EQ(memory::name_of(memory::ambient.scope.module), "elsewhere");
}

// A gradient that is recorded stays the tensor that its rule made; else it is stored as its leaf is.
TEST(Tape, CopiesNoGradientThatIsRecorded) {
  const Tensor w = random_leaf({4, 3, 2, 2});
  for (const bool create_graph : {true, false}) {
    Tensor x = random_leaf({2, 3, 4, 4});
    const Tensor y = sum(conv2d(x, w));
    y.backward({}, false, create_graph);
    const Tensor g = x.grad();
    EXPECT_EQ(g.is_contiguous(), !create_graph);
    EXPECT_EQ(memory::name_of(test::op_of(g)) == std::string("conv2d"), create_graph);
    x.set_grad({});  // which leads back to x
  }
}

}  // namespace
}  // namespace bytetape
