// Gradients that leaves get in 16 bits and backward widens at its end, on a device of the host's memory whose kernels
// say that they would widen each on its own. Numbers are small integers: nothing is rounded, so every way to a gradient
// gives the same bits.
#include <mutex>
#include <thread>

#include "bytetape/bytetape.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/kernels/copy.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"
#include "tests/support/stand_in.h"

namespace bytetape {
namespace {

const Device gpu = Device::cuda();

using Counts = std::vector<std::size_t>;
Counts launches;  // of widen_all, by how many it widened
std::mutex counting;
void widen_all(std::span<const ConstView> from, std::span<const View> to) {
  {
    const std::lock_guard lock(counting);
    launches.push_back(from.size());
  }
  cpu::copy_kernels().widen_all(from, to);
}
const KernelTable& kernels(bool widens) {
  static const CopyKernels counting = [] {
    CopyKernels k = cpu::copy_kernels();
    k.widen_all = widen_all;
    return k;
  }();
  static const ConvKernels widening = [] {
    ConvKernels k = cpu::conv_kernels();
    k.widens_weight_grad = [](const Conv2dWeightGradArgs& a) { return a.x.dtype == DType::bf16; };
    return k;
  }();
  static const auto table = [](const ConvKernels& conv) {
    KernelTable k = cpu::kernels();
    k.set(counting);
    k.set(conv);
    return k;
  };
  static const KernelTable tables[] = {table(cpu::conv_kernels()), table(widening)};
  return tables[widens];
}

Tensor signs(const Shape& shape) { return to(test::random_tensor(shape) > 0, DType::f32) * 2 - 1; }

/// What the leaves are made of, on the host.
struct Drawn {
  Tensor x = signs({2, 3, 4, 4}), factor = signs({2, 5, 4, 4});
  std::vector<Tensor> weights{signs({5, 3, 3, 3}), signs({5, 3, 3, 3}), signs({5, 3, 3, 3})};
};

/// Three convolutions of one image, each with a leaf of its own.
struct Convs {
  Tensor x, factor;
  std::vector<Tensor> weights;

  explicit Convs(const Drawn& drawn, Device device = gpu) : x(to(drawn.x, device)), factor(to(drawn.factor, device)) {
    for (const Tensor& w : drawn.weights) weights.push_back(to(w, device).set_requires_grad());
  }
  Tensor loss_of(int i) const {
    const Autocast autocast(DType::bf16);
    return sum(conv2d(x, weights[static_cast<std::size_t>(i)], {}, {.padding = 1}) * factor);
  }
  Tensor loss() const { return loss_of(0) + loss_of(1) + loss_of(2); }
};

using Values = std::vector<std::vector<float>>;
Values gradients(const Convs& convs) {
  Values values;
  for (const Tensor& w : convs.weights) {
    EXPECT_EQ(w.grad().dtype(), DType::f32);
    EXPECT_EQ(w.grad().strides(), w.strides());
    EXPECT_EQ(w.grad().storage().role(), memory::Role::gradient);
    values.push_back(w.grad().to_vector<float>());
  }
  return values;
}

/// What the program leaves as gradients is the same where kernels widen by themselves; how many gradients each launch
/// widened where they do not.
template <class F>
Counts launches_of(const F& program) {
  const Drawn drawn;
  Values expected;
  for (const bool widens : {false, true}) {
    const test::StandIn stand_in({.kernels = &kernels(widens)});
    launches.clear();
    Convs convs(drawn);
    program(convs);
    if (widens) {
      EXPECT_EQ(gradients(convs), expected);
    } else {
      expected = gradients(convs);
      EXPECT_EQ(launches, Counts());
    }
  }
  return launches;
}

TEST(LowGrad, AllLeavesAreWidenedAtOnce) {
  EXPECT_EQ(launches_of([](Convs& c) { c.loss().backward(); }), Counts{3});
}

TEST(LowGrad, AddsToWhatIsThere) {
  const auto program = [](Convs& c) {
    const Tensor loss = c.loss();
    loss.backward({}, true);
    loss.backward();
  };
  EXPECT_EQ(launches_of(program), (Counts{3, 3}));
}

TEST(LowGrad, OfASharedLeafIsAddedUpInF32) {
  const auto program = [](Convs& c) {
    c.weights[0].set_grad(full({5, 3, 3, 3}, 3, DType::f32, gpu));
    const Tensor penalty = sum(c.weights[0] * c.weights[0]) + sum(c.weights[1] * 7);
    (c.loss() + c.loss_of(0) + c.loss_of(0) + penalty).backward();
  };
  EXPECT_EQ(launches_of(program), Counts{1}) << "only one leaf is met once";
}

TEST(LowGrad, FallsBackWhereTheGradientIsLookedAt) {
  const auto hooked = [](Convs& c) {
    int calls = 0;
    c.weights[1].register_hook([&](const Tensor& g) {
      ++calls;
      EXPECT_EQ(g.dtype(), DType::f32);
      return g * 2;
    });
    c.loss().backward();
    EXPECT_EQ(calls, 1);
  };
  EXPECT_EQ(launches_of(hooked), (Counts{1, 1})) << "a launch before the hook, and one at the end";
  const auto watched = [](Convs& c) {
    const DetectAnomaly on;
    c.loss().backward();
  };
  EXPECT_EQ(launches_of(watched), Counts{});
}

TEST(LowGrad, IsThereWhenAHookBeforeItsLayerRuns) {
  const test::StandIn stand_in({.kernels = &kernels(true)});
  launches.clear();
  const Drawn drawn;
  const Tensor x = to(drawn.x, gpu).set_requires_grad();
  const Convs convs(drawn);
  Tensor found;
  {
    const Autocast autocast(DType::bf16);
    const Tensor h = x * 1;
    h.register_hook([&](const Tensor&) { return found = convs.weights[0].grad(), Tensor(); });
    sum(conv2d(h, convs.weights[0], {}, {.padding = 1}) * convs.factor).backward();
  }
  ASSERT_TRUE(found.defined());
  EXPECT_EQ(found.dtype(), DType::f32);
  EXPECT_EQ(launches, Counts{1});
}

TEST(LowGrad, FallsBackWhereTheGradientIsNotALeafs) {
  const auto captured = [](Convs& c) {
    const std::vector<Tensor> g = grad({c.loss()}, c.weights);
    for (std::size_t i = 0; i < 3; ++i) c.weights[i].set_grad(g[i]);
  };
  EXPECT_EQ(launches_of(captured), Counts{});
  const auto recorded = [](Convs& c) {
    c.loss().backward({}, false, true);
    for (Tensor& w : c.weights) w.set_grad(w.grad().detach());  // ends the circle
  };
  EXPECT_EQ(launches_of(recorded), Counts{});
  const auto derived = [](Convs& c) {
    const Tensor leaf = c.weights[2];
    c.weights[2] = leaf * 2;
    const Tensor loss = c.loss();
    c.weights[2] = leaf;
    loss.backward();
  };
  EXPECT_EQ(launches_of(derived), Counts{2});
}

TEST(LowGrad, EachDeviceHasALaunchOfItsOwn) {
  const test::StandIn stand_in({.kernels = &kernels(true)});
  launches.clear();
  const Drawn drawn;
  const Convs here(drawn), there(drawn, Device::cuda(1));
  (here.loss() + to(there.loss(), gpu)).backward();
  EXPECT_EQ(launches, (Counts{3, 3}));
  EXPECT_EQ(gradients(here), gradients(there));
}

TEST(LowGrad, LeavesAFrozenLeafAlone) {
  const test::StandIn stand_in({.kernels = &kernels(true)});
  Convs convs{Drawn()};
  const Tensor loss = convs.loss();
  convs.weights[1].set_requires_grad(false);
  loss.backward();
  EXPECT_FALSE(convs.weights[1].grad().defined());
  EXPECT_TRUE(convs.weights[2].grad().defined());
}

TEST(LowGrad, OfLeavesThatThreadsShare) {
  const auto program = [](Convs& c) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 10; ++i) c.loss().backward();
      });
    for (std::thread& t : threads) t.join();
  };
  EXPECT_EQ(launches_of(program), Counts(30, 3));
}

/// Steps of two layers.
void train(Device device) {
  const DefaultDevice here(device);
  nn::Sequential net;
  net.push_back("conv1", nn::Conv2d(3, 8, 3)).push_back("conv2", nn::Conv2d(8, 4, 3));
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  for (int i = 0; i < 3; ++i) {
    const memory::Step step;
    const Autocast autocast(DType::bf16);
    sgd.zero_grad();
    sum(net(zeros({2, 3, 8, 8}))).backward();
    sgd.step();
  }
}

TEST(LowGrad, IsPredictedEventByEvent) {
  const test::StandIn stand_in({.kernels = &kernels(true)});
  const auto real = test::record_events(gpu, train), meta = test::record_events(Device::meta(gpu), train);
  EXPECT_GT(real.size(), 100u);
  EXPECT_EQ(test::first_difference(real, meta), "");
}

TEST(LowGrad, IsBookedAsIfItsOpHadMadeIt) {
  for (const bool widens : {false, true}) {
    const test::StandIn stand_in({.kernels = &kernels(widens)});
    const DefaultDevice here(gpu);
    nn::Sequential net;
    net.push_back("conv", nn::Conv2d(3, 8, 3));
    {
      const Autocast autocast(DType::bf16);
      sum(net(zeros({2, 3, 8, 8}).set_requires_grad())).backward();
    }
    const Tensor g = net.named_parameters().front().second.grad();
    const memory::ScopeIds owner = g.storage().owner();
    EXPECT_EQ(memory::name_of(owner.module), "conv");
    EXPECT_EQ(memory::name_of(owner.op), "conv2d");
    EXPECT_EQ(owner.phase, memory::Phase::backward);
  }
}

}  // namespace
}  // namespace bytetape
