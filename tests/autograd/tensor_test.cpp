// What autograd knows of a tensor.
#include "bytetape/core/tensor.h"

#include <stdexcept>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;
using test::random_tensor;

TEST(RequiresGrad, StartsOnLeavesAndSpreads) {
  Tensor x = random_tensor({3});
  EXPECT_FALSE(x.requires_grad());
  EXPECT_FALSE((x * 2).requires_grad());
  x.set_requires_grad();
  const Tensor y = x * 2;
  EXPECT_TRUE(x.is_leaf());
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  x.set_requires_grad(false);
  EXPECT_FALSE((x * 2).requires_grad());
  EXPECT_TRUE((x * 2).is_leaf());
}

TEST(RequiresGrad, IsForFloatingLeaves) {
  Tensor y = random_leaf({3}) * 2, indices = arange(3);
  EXPECT_THROWS_SAYING(y.set_requires_grad(false), AutogradError, "can only be set on a leaf");
  EXPECT_THROWS_SAYING(indices.set_requires_grad(), DTypeError, "only floating tensors can require grad, got i64(3,)");
  indices.set_requires_grad(false);
  EXPECT_FALSE(indices.requires_grad());
}

TEST(RequiresGrad, StopsAtDetach) {
  const Tensor x = random_leaf({3}), y = x * x;
  const Tensor cut = y.detach();
  EXPECT_FALSE(cut.requires_grad());
  EXPECT_EQ(&cut.storage(), &y.storage());
  sum(cut * x).backward();
  EXPECT_TRUE(all_close(x.grad(), cut));
}

TEST(SetGrad, ChecksWhatItIsGiven) {
  Tensor x = random_leaf({3});
  EXPECT_THROWS_SAYING(x.set_grad(random_tensor({2})), ShapeError, "must have the shape of its tensor");
  EXPECT_THROWS_SAYING(x.set_grad(random_tensor({3}, DType::f32)), DTypeError, "must have the dtype of its tensor");
  EXPECT_THROWS_SAYING(x.set_grad(zeros({3}, DType::f64, Device::meta())), DeviceError, "must be where its tensor is");
  const Tensor g = random_tensor({3});
  x.set_grad(g);
  EXPECT_TRUE(x.grad().is_same(g));
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
}

TEST(Hooks, SeeTheGradientOfLeavesAndOthers) {
  const Tensor x = random_leaf({3}), y = x * 2;
  Tensor of_x, of_y;
  x.register_hook([&](const Tensor& g) { return of_x = clone(g), Tensor(); });
  y.register_hook([&](const Tensor& g) { return of_y = clone(g), Tensor(); });
  sum(y * y).backward();
  EXPECT_TRUE(all_close(of_y, (2 * y).detach()));
  EXPECT_TRUE(all_close(of_x, (4 * y).detach()));
}

TEST(Hooks, ReplaceGradientsOneAfterTheOther) {
  const Tensor x = random_leaf({3}), y = x * 2;
  y.register_hook([](const Tensor& g) { return g * 10; });
  y.register_hook([](const Tensor& g) { return g + 1; });
  x.register_hook([](const Tensor& g) { return -g; });
  sum(y).backward();
  EXPECT_TRUE(all_close(x.grad(), full({3}, -22, DType::f64)));
}

TEST(Hooks, WorkForGradToo) {
  const Tensor x = random_leaf({3}), y = x * 2;
  y.register_hook([](const Tensor& g) { return g * 10; });
  x.register_hook([](const Tensor& g) { return -g; });
  const auto g = grad({sum(y)}, {x, y});
  EXPECT_TRUE(all_close(g[0], full({3}, -20, DType::f64)));
  EXPECT_TRUE(all_close(g[1], full({3}, 10, DType::f64)));
}

TEST(Hooks, KeepTheTensorTheyReturn) {
  const Tensor x = random_leaf({3}), mine = random_tensor({3}), copy = clone(mine);
  x.register_hook([&](const Tensor&) { return mine; });
  sum(x * 2).backward();
  sum(x * 2).backward();
  EXPECT_NE(&x.grad().storage(), &mine.storage());
  EXPECT_TRUE(all_close(mine, copy));
  EXPECT_TRUE(all_close(x.grad(), 2 * copy));
}

TEST(Hooks, MustReturnSomethingThatFits) {
  const Tensor x = random_leaf({3}), y = x * 2;
  y.register_hook([](const Tensor&) { return random_tensor({4}); });
  EXPECT_THROWS_SAYING(sum(y).backward(), AutogradError, "mul: a hook gave the gradient f64(4,) on cpu, where f64(3,)");
}

TEST(Hooks, NeedAGraph) {
  EXPECT_THROWS_SAYING(random_tensor({2}).register_hook([](const Tensor& g) { return g; }), AutogradError,
                       "a hook needs a tensor that requires grad");
}

TEST(Hooks, CanBeRemovedAlsoByThemselves) {
  const Tensor x = random_leaf({2});
  int first = 0, second = 0, handle = -1;
  handle = x.register_hook([&](const Tensor&) {
    ++first;
    x.remove_hook(handle);
    return Tensor();
  });
  x.register_hook([&](const Tensor&) { return ++second, Tensor(); });
  sum(x * 2).backward();
  sum(x * 2).backward();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST(Hooks, MayRunAnotherBackward) {
  const Tensor x = random_leaf({3}), w = random_leaf({3}), y = x * 2;
  y.register_hook([&](const Tensor& g) {
    const GradMode on(true);  // off within backward
    sum(w * w).backward();
    return g;
  });
  sum(y).backward();
  EXPECT_TRUE(all_close(x.grad(), full({3}, 2, DType::f64)));
  EXPECT_TRUE(all_close(w.grad(), (2 * w).detach()));
}

// Nodes of the outer run already wait with gradients when the inner run passes through the same nodes.
TEST(Hooks, MayRunBackwardOverTheSameGraph) {
  const Tensor x = random_leaf({3});
  const Tensor y = x * x, z = y * 3;
  const Tensor total = sum(y * 5 + z);
  bool inner = false;
  Tensor seen;
  z.register_hook([&](const Tensor&) {
    if (inner) return Tensor();
    inner = true;
    const GradMode on(true);
    seen = grad({sum(y * 7)}, {x}, {.retain_graph = true})[0];
    total.backward({}, true);
    return Tensor();
  });
  total.backward({}, true);
  EXPECT_TRUE(all_close(seen, (14 * x).detach()));
  EXPECT_TRUE(all_close(x.grad(), (2 * 16 * x).detach()));
}

TEST(Hooks, ThatThrowLeaveAllRunsClean) {
  Tensor x = random_leaf({3});
  const Tensor y = x * x, z = y * 3;
  const Tensor total = sum(y * 5 + z);
  const int handle = z.register_hook([&](const Tensor&) -> Tensor { throw std::runtime_error("not now"); });
  const int outer = y.register_hook([&](const Tensor&) {
    const GradMode on(true);
    EXPECT_THROW(sum(z * 1).backward({}, true), std::runtime_error);
    return Tensor();
  });
  EXPECT_THROW(total.backward({}, true), std::runtime_error);
  z.remove_hook(handle);
  y.remove_hook(outer);
  x.set_grad({});
  total.backward();
  EXPECT_TRUE(all_close(x.grad(), (16 * x).detach()));
}

TEST(Hooks, AreRemovedAfterAnInPlaceOp) {
  const Tensor x = random_leaf({3});
  Tensor y = x * 2;
  int calls = 0;
  const int handle = y.register_hook([&](const Tensor&) { return ++calls, Tensor(); });
  mul_(y, 2);
  y.remove_hook(handle);
  sum(y).backward();
  EXPECT_EQ(calls, 0);
  EXPECT_THROWS_SAYING(Tensor().remove_hook(0), ValueError, "undefined");
}

TEST(TensorGrad, IsAnotherTensorsAndHooksAreCallable) {
  Tensor x = test::random_leaf({3});
  EXPECT_THROWS_SAYING(x.set_grad(x), ValueError, "cannot be its own gradient");
  EXPECT_THROWS_SAYING(x.register_hook(nullptr), ValueError, "a hook must be callable");
  EXPECT_THROWS_SAYING(x.register_post_accumulate_grad_hook(nullptr), ValueError, "a hook must be callable");
  EXPECT_FALSE(x.grad().defined());
}

}  // namespace
}  // namespace bytetape
