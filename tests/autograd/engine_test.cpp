#include "bytetape/autograd/engine.h"

#include <stdexcept>
#include <thread>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;
using test::random_tensor;

TEST(Backward, AddsUpEveryPath) {
  const Tensor x = random_leaf({3, 2}), w = random_leaf({3, 2});
  sum(x * x * w + 3 * x).backward();
  EXPECT_TRUE(all_close(x.grad(), (2 * x * w + 3).detach()));
  EXPECT_TRUE(all_close(w.grad(), (x * x).detach()));
}

TEST(Backward, AddsToTheGradientOfAnEarlierOne) {
  const Tensor x = random_leaf({4});
  sum(x * x).backward();
  const Tensor once = clone(x.grad());
  sum(x * x).backward();
  EXPECT_TRUE(all_close(x.grad(), 2 * once));
}

// The first op on a leaf is recorded together with the leaf's accumulator: all later uses must still come in before it.
TEST(Backward, MeetsALeafOnceAfterAllItsUses) {
  const Tensor x = random_leaf({2});
  int calls = 0;
  x.register_hook([&](const Tensor& g) {
    ++calls;
    EXPECT_TRUE(all_close(g, (2 * x + 5).detach()));
    return Tensor();
  });
  const Tensor first = x * 2, second = x * 3, third = x * x;
  sum(first + second + third).backward();
  EXPECT_EQ(calls, 1);
}

TEST(Backward, OfALeafIsItsSeed) {
  const Tensor x = random_leaf({3}), seed = random_tensor({3});
  x.backward(seed);
  EXPECT_TRUE(all_close(x.grad(), seed));
  EXPECT_NE(&x.grad().storage(), &seed.storage());
}

TEST(Backward, TakesASeedOrNeedsOneElement) {
  const Tensor x = random_leaf({2, 3}), seed = random_tensor({2, 3});
  EXPECT_THROWS_SAYING((x * 2).backward(), AutogradError, "backward: f64(2, 3) on cpu needs a seed");
  EXPECT_THROWS_SAYING((x * 2).backward(random_tensor({3, 2})), ShapeError, "must have the shape of the output");
  EXPECT_THROWS_SAYING((x * 2).backward(random_tensor({2, 3}, DType::f32)), DTypeError, "must have the dtype");
  EXPECT_THROWS_SAYING((x * 2).backward(zeros({2, 3}, DType::f64, Device::meta())), DeviceError, "on meta");
  (x * 2).backward(seed);
  EXPECT_TRUE(all_close(x.grad(), 2 * seed));
}

TEST(Backward, NeedsAGraph) {
  EXPECT_THROWS_SAYING(sum(random_tensor({2})).backward(), AutogradError, "requires no grad");
  EXPECT_THROWS_SAYING(Tensor().backward(), AutogradError, "an undefined tensor");
  const Tensor x = random_leaf({2}), y = sum(x * x);
  y.backward();
  EXPECT_THROWS_SAYING(y.backward(), AutogradError, "the graph was already freed by an earlier backward");
}

TEST(Backward, RunsAgainOnARetainedGraph) {
  const Tensor x = random_leaf({3}), y = sum(x * x * x);
  y.backward({}, true);
  const Tensor once = clone(x.grad());
  y.backward();
  EXPECT_TRUE(all_close(x.grad(), 2 * once));
}

TEST(Backward, GivesEachLeafStorageOfItsOwn) {
  const Tensor a = random_leaf({3}), b = random_leaf({3}), seed = random_tensor({3});
  const Tensor kept_seed = clone(seed);
  (a + b).backward(seed);
  (a + b).backward(seed);
  EXPECT_NE(&a.grad().storage(), &b.grad().storage());
  EXPECT_NE(&a.grad().storage(), &seed.storage());
  EXPECT_NE(&b.grad().storage(), &seed.storage());
  EXPECT_TRUE(all_close(a.grad(), 2 * seed));
  EXPECT_TRUE(all_close(b.grad(), 2 * seed));
  EXPECT_TRUE(all_close(seed, kept_seed));
}

TEST(Backward, NeverWritesIntoAGradientThatAHookKept) {
  const Tensor x = random_leaf({3}), y = x * 2;
  Tensor kept, copy;
  y.register_hook([&](const Tensor& g) {
    kept = g;
    copy = clone(g);
    return Tensor();
  });
  sum(y + x).backward();
  sum(x * 5).backward();
  EXPECT_TRUE(all_close(kept, copy));
  EXPECT_TRUE(all_close(x.grad(), full({3}, 8, DType::f64)));
}

TEST(Backward, StoresGradientsAsTheirLeaves) {
  const Tensor base = random_tensor({4, 3});
  const Tensor x = transpose(base, 0, 1).detach().set_requires_grad();
  (x * 1).backward(random_tensor({3, 4}));
  EXPECT_EQ(x.grad().strides(), x.strides());
  const Tensor expanded = expand(random_tensor({1, 4}), {3, 4}).detach().set_requires_grad();
  (expanded * 1).backward(random_tensor({3, 4}));
  EXPECT_TRUE(expanded.grad().is_contiguous());
}

TEST(Backward, KeepsOfAGradientOnlyThePartThatIsTheLeafs) {
  const Tensor x = random_leaf({64}), rest = random_tensor({640}), w = random_tensor({704});
  const std::size_t before = test::allocated();
  sum(cat({x, rest}) * w).backward();
  EXPECT_EQ(test::allocated() - before, test::rounded(x.nbytes()));
  EXPECT_TRUE(all_close(x.grad(), narrow(w, 0, 0, 64)));
}

TEST(Backward, OfAHugeChainOverflowsNoStack) {
  const Tensor x = random_leaf({1});
  {
    Tensor y = x;
    for (int i = 0; i < 200'000; ++i) y = y + 1;
    y.backward();
    EXPECT_EQ(x.grad().item<double>(), 1);
    for (int i = 0; i < 200'000; ++i) y = y * 1;
  }
  Tensor z = x;
  for (int i = 0; i < 200'000; ++i) z = z * x;
  EXPECT_TRUE(grad({z}, {x}, {.retain_graph = true})[0].defined());
}

TEST(Backward, RunsOnSeparateGraphsInSeparateThreads) {
  std::vector<Tensor> leaves;
  for (int t = 0; t < 4; ++t) leaves.push_back(random_leaf({16}));
  std::vector<std::thread> threads;
  for (const Tensor& x : leaves)
    threads.emplace_back([&x] {
      for (int i = 0; i < 200; ++i) {
        Tensor y = x;
        for (int k = 0; k < 10; ++k) y = y * 1 + x;
        sum(y).backward();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const Tensor& x : leaves) EXPECT_TRUE(all_close(x.grad(), full({16}, 200 * 11, DType::f64)));
}

// Rules write over a gradient that nobody else holds: not over one that the caller, a hook or another path has.
TEST(Backward, WritesOverNoGradientThatSomebodyHolds) {
  const Tensor x = random_leaf({4, 5}), seed = random_tensor({4, 5}), before = clone(seed);
  relu(x).backward(seed);
  dropout(x * 1, 0.5).backward(seed);
  EXPECT_TRUE(all_close(seed, before));
  std::vector<double> wrapped(20, 1);
  dropout(x, 0.5).backward(from_blob(wrapped.data(), {4, 5}, DType::f64));
  EXPECT_EQ(wrapped, std::vector<double>(20, 1));
  const Tensor dropped = dropout(x * 1, 0.5);
  dropped.register_hook([&](const Tensor&) { return from_blob(wrapped.data(), {4, 5}, DType::f64); });
  sum(dropped).backward();
  EXPECT_EQ(wrapped, std::vector<double>(20, 1)) << "which a hook lends";

  Tensor seen;
  const Tensor y = relu(x * 1);
  y.register_hook([&](const Tensor& g) { return seen = g, Tensor(); });
  sum(y * seed).backward();
  EXPECT_TRUE(all_close(seen, seed));

  const Tensor u = x * 2, v = relu(u), w = random_tensor({4, 5});
  const auto g = grad({sum(v * w), sum(u * w)}, {v, u});
  EXPECT_TRUE(all_close(g[0], w));
  EXPECT_TRUE(all_close(g[1], w + w * to(u > 0, DType::f64)));

  const Tensor p = x * 3, both = relu(p) + sigmoid(p);  // one gradient goes two ways
  const Tensor gp = grad({sum(both * w)}, {p})[0], s = sigmoid(p).detach();
  EXPECT_TRUE(all_close(gp, w * (to(p > 0, DType::f64) + s * (1 - s))));
}

TEST(Backward, LeavesAFrozenLeafAlone) {
  Tensor x = random_leaf({2}), w = random_leaf({2});
  const Tensor y = sum(x * w);
  x.set_requires_grad(false);
  y.backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(all_close(w.grad(), x));
}

void convert(const Tensor& leaf, DType dtype) { leaf.set_data(to(leaf.detach(), dtype)); }

TEST(Backward, GivesALeafThatWasConvertedTheGradientOfItsNewKind) {
  Tensor w = random_leaf({3}, DType::f32);
  int calls = 0;
  w.register_hook([&](const Tensor& g) { return ++calls, g; });
  w.register_post_accumulate_grad_hook([&](const Tensor&) { ++calls; });
  const Tensor kept = w * 2;
  convert(w, DType::f64);
  const Tensor also_kept = w * 3;
  sum(also_kept).backward();
  EXPECT_TRUE(all_close(w.grad(), full({3}, 3, DType::f64)));
  w.set_grad({});
  w.set_data(empty({3}, DType::f64, Device::meta()));
  sum(w * 3).backward();
  EXPECT_EQ(describe(w.grad()), "f64(3,) on meta");
  EXPECT_EQ(calls, 4);
}

TEST(Backward, RefusesALeafThatWasConvertedSinceTheForwardPass) {
  Tensor w = random_leaf({2, 3}, DType::f32), v = random_leaf({2, 3}, DType::f32);
  const Tensor x = ones({4, 3}, DType::f32), pointwise = sum(w * 2), product = sum(linear(x, v));
  convert(w, DType::f64);
  convert(v, DType::f64);
  for (const Tensor& old : {pointwise, product}) {
    EXPECT_THROWS_SAYING(old.backward({}, /*retain_graph=*/true), AutogradError,
                         "a leaf, f64(2, 3) on cpu, was moved or converted since the forward pass, in which it was "
                         "f32(2, 3) on cpu");
  }
  EXPECT_FALSE(w.grad().defined());
  EXPECT_FALSE(v.grad().defined());
  w.set_requires_grad(false);
  EXPECT_NO_THROW(pointwise.backward()) << "a frozen leaf gets no gradient";
}

TEST(Backward, RefusesALeafThatWasMovedSinceTheForwardPass) {
  const Tensor w = random_leaf({3}), old = sum(w * 2);
  w.set_data(empty({3}, DType::f64, Device::meta()));
  EXPECT_THROWS_SAYING(old.backward(), AutogradError, "a leaf, f64(3,) on meta, was moved or converted");
  EXPECT_FALSE(w.grad().defined());
}

TEST(Backward, TakesALeafThatWasConvertedAndBackUnlessAnotherGraphCameBetween) {
  Tensor w = random_leaf({2, 3}, DType::f32);
  const auto loss = [&] { return sum(linear(ones({4, 3}, w.dtype()), w)); };
  const Tensor first = loss(), second = loss();
  convert(w, DType::f64);
  convert(w, DType::f32);
  first.backward();
  EXPECT_TRUE(all_close(w.grad(), full({2, 3}, 4)));
  convert(w, DType::f64);
  const Tensor between = loss();
  convert(w, DType::f32);
  EXPECT_THROWS_SAYING(second.backward(), AutogradError, "was moved or converted since the forward pass");
  EXPECT_TRUE(all_close(w.grad(), full({2, 3}, 4)));
  loss().backward();
  EXPECT_TRUE(all_close(w.grad(), full({2, 3}, 8)));
}

TEST(Grad, RefusesAnInputThatWasConvertedSinceTheForwardPass) {
  const Tensor w = random_leaf({3}, DType::f32), x = random_leaf({3}, DType::f32), y = sum(w + x);
  convert(w, DType::f64);
  EXPECT_THROWS_SAYING(grad({y}, {x, w}, {.allow_unused = true}), AutogradError, "was moved or converted since");
  EXPECT_TRUE(all_close(grad({y}, {x})[0], ones({3}))) << "the other leaf does not matter";
}

TEST(Backward, RunsInThreadsThatShareALeaf) {
  const Tensor x = random_leaf({16});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&x] {
      for (int i = 0; i < 200; ++i) {
        const Tensor dropped = x * 2;
        Tensor y = x;
        for (int k = 0; k < 10; ++k) y = y * 1 + x;
        if (i % 2)
          sum(y).backward();
        else
          EXPECT_TRUE(all_close(grad({sum(y)}, {x})[0], full({16}, 11, DType::f64)));
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(all_close(x.grad(), full({16}, 4 * 100 * 11, DType::f64)));
}

TEST(Grad, LeavesDotGradAlone) {
  const Tensor x = random_leaf({3}), w = random_leaf({3});
  const auto g = grad({sum(x * w)}, {x});
  EXPECT_TRUE(all_close(g[0], w.detach()));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

TEST(Grad, SumsOverOutputsAndTakesSeeds) {
  const Tensor x = random_leaf({3}), seed = random_tensor({3});
  const auto g = grad({x * 2, sum(x * x)}, {x}, {.seeds = {seed, {}}});
  EXPECT_TRUE(all_close(g[0], (2 * seed + 2 * x).detach()));
  EXPECT_THROWS_SAYING(grad({x * 2, x * 3}, {x}, {.seeds = {seed}}), ValueError, "grad: 1 seeds for 2 outputs");
}

TEST(Grad, OfALeafIsWholeHoweverEarlyItWasFirstUsed) {
  const Tensor x = random_leaf({2});
  const Tensor y = x * 2, z = x * 3;
  EXPECT_TRUE(all_close(grad({sum(y + z)}, {x})[0], full({2}, 5, DType::f64)));
}

TEST(Grad, TakesNonLeavesRepeatsAndOutputsAsInputs) {
  const Tensor x = random_leaf({3}), seed = random_tensor({3});
  const Tensor y = x * x, z = y * 3;
  const auto g = grad({z}, {y, x, x, z}, {.seeds = {seed}});
  EXPECT_TRUE(all_close(g[0], 3 * seed));
  EXPECT_TRUE(all_close(g[1], (6 * x * seed).detach()));
  EXPECT_TRUE(all_close(g[2], g[1]));
  EXPECT_TRUE(all_close(g[3], seed));
  EXPECT_NE(&g[1].storage(), &g[2].storage());
  EXPECT_NE(&g[3].storage(), &seed.storage());
}

TEST(Grad, SaysWhereAnInputIsUnused) {
  const Tensor x = random_leaf({3}), unused = random_leaf({2});
  EXPECT_THROWS_SAYING(grad({sum(x * x)}, {x, unused}), AutogradError, "input 1, f64(2,) on cpu, was not used");
  const auto g = grad({sum(x * x)}, {x, unused}, {.allow_unused = true});
  EXPECT_TRUE(g[0].defined());
  EXPECT_FALSE(g[1].defined());
  EXPECT_THROWS_SAYING(grad({sum(x)}, {random_tensor({3})}), AutogradError, "requires no grad");
}

TEST(Grad, DifferentiatesThreeTimes) {
  const Tensor x = random_leaf({4});
  const Tensor first = grad({sum(x * x * x * x)}, {x}, {.create_graph = true})[0];
  const Tensor second = grad({sum(first)}, {x}, {.create_graph = true})[0];
  const Tensor third = grad({sum(second)}, {x})[0];
  EXPECT_TRUE(all_close(first, (4 * x * x * x).detach()));
  EXPECT_TRUE(all_close(second, (12 * x * x).detach()));
  EXPECT_TRUE(all_close(third, (24 * x).detach()));
}

TEST(Grad, KeepsTheGraphOfWhatIsToBeDifferentiatedAgain) {
  const Tensor x = random_leaf({4}), y = sum(x * x * x);
  y.backward({}, /*retain_graph=*/false, /*create_graph=*/true);
  const Tensor again = grad({y}, {x}, {.create_graph = true})[0];
  EXPECT_TRUE(all_close(grad({y}, {x})[0], again.detach()));
  Tensor(x).set_grad({});  // ends the circle
}

TEST(Grad, OfATensorWhoseOwnGraphIsFreed) {
  const Tensor x = random_leaf({3}), y = x * x;
  sum(y).backward();
  EXPECT_TRUE(all_close(grad({sum(y * 3)}, {y})[0], full({3}, 3, DType::f64)));
  EXPECT_THROWS_SAYING(grad({sum(y * 3)}, {x}), AutogradError, "already freed");
}

TEST(Grad, DifferentiatesThroughSeeds) {
  const Tensor x = random_leaf({3}), seed = random_leaf({3});
  const Tensor g = grad({x * x}, {x}, {.seeds = {seed}, .create_graph = true})[0];
  EXPECT_TRUE(all_close(grad({sum(g)}, {seed})[0], (2 * x).detach()));
}

TEST(Backward, CreatesAGraphOfDotGradThatIsNotTheSeed) {
  Tensor x = random_leaf({3}), y = random_leaf({3});
  const Tensor seed = random_leaf({3});
  (x * x + x).backward(seed, false, true);
  EXPECT_TRUE(x.grad().requires_grad());
  EXPECT_TRUE(all_close(grad({sum(x.grad())}, {x})[0], (2 * seed).detach()));
  (y + 1).backward(seed, false, true);
  EXPECT_NE(&y.grad().storage(), &seed.storage());
  x.set_grad({});  // ends the circle leaf -> gradient -> graph -> leaf
  y.set_grad({});
}

TEST(Backward, AddsToAGradientThatIsRecorded) {
  Tensor x = random_leaf({3});
  for (int i = 0; i < 2; ++i) sum(x * x * x).backward({}, false, /*create_graph=*/true);
  EXPECT_TRUE(all_close(x.grad().detach(), (6 * x * x).detach()));
  EXPECT_TRUE(all_close(grad({sum(x.grad())}, {x})[0], (12 * x).detach()));
  x.set_grad({});  // ends the circle
}

}  // namespace
}  // namespace bytetape
