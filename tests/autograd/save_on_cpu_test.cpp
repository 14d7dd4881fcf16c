// What is saved goes to the host and comes back, on a device of the host's memory. On a GPU:
// tests/cuda/save_on_cpu_test.cpp.
#include "bytetape/autograd/save_on_cpu.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using memory::Role;
using test::held_as;

constexpr std::size_t row = std::size_t{64} << 10;  // bytes of a layer's result
constexpr std::size_t all = std::numeric_limits<std::size_t>::max() / 2;

/// A deep net whose later layers use earlier results again.
struct Net : nn::Module {
  std::vector<nn::Linear> layers;
  Net() {
    layers.reserve(12);
    for (int i = 0; i < 12; ++i) register_module("layer" + std::to_string(i), layers.emplace_back(64, 64));
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x, first;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      h = tanh(layers[i](h));
      if (i == 0) first = h;
      if (i == 9) h = h + first * h;  // saves one that has long been pushed out
    }
    return h;
  }
};

class SavesOnCpu : public testing::Test {
 protected:
  SavesOnCpu() {
    manual_seed(3);
    net.emplace();
    x = to(randn({256, 64}, DType::f32, Device::cpu()), gpu);
  }
  ~SavesOnCpu() override {
    net.reset();
    x = {};
    EXPECT_EQ(test::allocated(gpu), 0u);
    synchronize(gpu);
    EXPECT_EQ(fake->pinned.allocator().statistics().allocated.current, 0u);
  }

  Tensor loss(const SaveOnCpuOptions& options) {
    const SaveOnCpu offload(options);
    return mean((*net)(x));
  }
  /// Of a step, its loss first.
  std::vector<std::vector<float>> gradients(const SaveOnCpuOptions& options, bool twice = false) {
    net->zero_grad();
    const Tensor y = loss(options);
    y.backward({}, twice);
    if (twice) y.backward();
    std::vector<std::vector<float>> values{y.to_vector<float>()};
    for (const Tensor& p : net->parameters()) values.push_back(p.grad().to_vector<float>());
    return values;
  }
  std::size_t saved() { return held_as(Role::saved, gpu); }

  const std::unique_ptr<test::FakeGpu> fake = std::make_unique<test::FakeGpu>();
  const Device gpu = test::FakeGpu::gpu;
  const DefaultDevice here{gpu};
  std::optional<Net> net;
  Tensor x;
};

TEST_F(SavesOnCpu, ValuesAreTheSameWhateverStays) {
  const auto expected = gradients({.keep = all});
  const std::size_t traffic = fake->device.statistics().to_device.count;
  EXPECT_EQ(fake->pinned.allocator().statistics().by_role[static_cast<int>(Role::saved)].peak, 0u);
  for (const std::size_t keep : {std::size_t{0}, row, 3 * row, 6 * row + 1, 11 * row}) {
    SCOPED_TRACE(keep / row);
    EXPECT_EQ(gradients({.keep = keep, .min_bytes = 1}), expected);
    EXPECT_EQ(gradients({.keep = keep, .min_bytes = 1}, true), gradients({.keep = all}, true));
  }
  EXPECT_GT(fake->device.statistics().to_device.count, traffic + 20);
}

TEST_F(SavesOnCpu, NoMoreStaysThanIsToBeKept) {
  const Tensor plain = loss({.keep = all});
  const std::size_t without = saved();
  EXPECT_GE(without, 13 * row);
  plain.backward();
  for (const std::size_t rows : {2u, 4u, 7u}) {
    const Tensor y = loss({.keep = rows * row, .min_bytes = 1024});
    EXPECT_EQ(saved(), rows * row) << rows;
    fake->device.reset_peaks();
    y.backward();
    EXPECT_EQ(fake->device.statistics().by_role[static_cast<int>(Role::saved)].peak, rows * row) << rows;
  }
}

// From the second layer on that backward reaches, what it needs is there or on its way.
TEST_F(SavesOnCpu, BytesComeBackAheadOfTheirUse) {
  const Tensor y = loss({.keep = 6 * row, .min_bytes = 1024});
  fake->done.clear();
  y.backward();
  const auto count = [&](const char* what) { return std::count(fake->done.begin(), fake->done.end(), what); };
  EXPECT_GE(count("copy on 15"), 5);
  EXPECT_LE(count("copy on 0"), 1);
  EXPECT_EQ(count("copy out on 15"), 0);
  EXPECT_EQ(count("15>0"), 0);
}

// The copy that has just begun, half of what is kept behind, runs beside the next layers.
TEST_F(SavesOnCpu, ForwardWaitsForNoCopyThatHasJustBegun) {
  fake->done.clear();
  const Tensor y = loss({.keep = 6 * row, .min_bytes = 1024});
  EXPECT_EQ(std::count(fake->done.begin(), fake->done.end(), "15>0"), 0);
  const auto waiting =
      std::count_if(fake->late.begin(), fake->late.end(), [](const auto& l) { return l.copy != nullptr; });
  EXPECT_GE(waiting, 2);
}

TEST_F(SavesOnCpu, CopiesNothingThatFitsIntoHalfOfWhatIsKept) {
  const Tensor y = loss({.keep = 60 * row, .min_bytes = 1});
  EXPECT_LE(saved(), 30 * row);
  EXPECT_EQ(fake->pinned.allocator().statistics().by_role[static_cast<int>(Role::saved)].peak, 0u);
  y.backward();
}

// From the second pass on. What is copied out is then what comes back.
TEST_F(SavesOnCpu, CopiesOnlyWhatLeavesOnceItKnows) {
  const auto copied = [&](const SaveOnCpuOptions& options) {
    const auto before = fake->device.statistics();
    loss(options).backward();
    const auto after = fake->device.statistics();
    return std::pair(after.to_host.bytes - before.to_host.bytes, after.to_device.bytes - before.to_device.bytes);
  };
  const SaveOnCpuOptions options{.keep = 6 * row, .min_bytes = 1024};
  const auto first = copied(options);
  EXPECT_GE(first.first, first.second + 2 * row) << "some of what stays was copied";
  for (int i = 0; i < 3; ++i) {
    const auto later = copied(options);
    EXPECT_EQ(later.second, first.second);
    EXPECT_EQ(later.first, later.second);
  }
  EXPECT_EQ(copied(SaveOnCpuOptions(options)), first) << "a copy of the options knows nothing";
  SaveOnCpuOptions other = options;
  copied(other);
  other.keep = 8 * row;
  const auto unknown = copied(other), known = copied(other);
  EXPECT_GT(unknown.first, known.first);
  EXPECT_EQ(unknown, copied({.keep = 8 * row, .min_bytes = 1024})) << "other options know nothing either";
}

// The copies of a pass that knows begin no later than those of one that does not, so nobody waits for them longer.
TEST_F(SavesOnCpu, CopiesBeginNoLaterOnceItKnows) {
  const SaveOnCpuOptions options{.keep = 8 * row, .min_bytes = 1024};
  const auto pass = [&] {
    std::vector<std::ptrdiff_t> copies;
    const SaveOnCpu offload(options);
    Tensor h = x.detach().set_requires_grad();
    fake->done.clear();
    for (int i = 0; i < 20; ++i) {
      h = tanh(h);
      copies.push_back(std::count(fake->done.begin(), fake->done.end(), "copy out on 15"));
    }
    return copies;
  };
  const auto first = pass(), later = pass();
  EXPECT_LT(later.back(), first.back());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_GE(later[i], std::min(first[i], later.back())) << i;
  EXPECT_GT(later[3], 0);
}

TEST_F(SavesOnCpu, APassOfOtherSizesIsLikeAFirstOne) {
  const SaveOnCpuOptions options{.keep = 12 * row, .min_bytes = 1024}, fresh = options;
  loss(options).backward();
  const auto copied = [&](const SaveOnCpuOptions& o) {
    const std::size_t before = fake->device.statistics().to_host.bytes;
    const SaveOnCpu offload(o);
    Tensor h = x.detach().set_requires_grad();
    for (int i = 0; i < 3; ++i) h = tanh(h);
    h = cat({h, h}, 0);
    for (int i = 0; i < 8; ++i) h = tanh(h);
    mean(h).backward();
    return fake->device.statistics().to_host.bytes - before;
  };
  const std::size_t unknown = copied(options);
  EXPECT_EQ(unknown, copied(fresh));
  EXPECT_LT(copied(options), unknown);
}

TEST_F(SavesOnCpu, RemembersPassesOfSeveralSizes) {
  const SaveOnCpuOptions options{.keep = 4 * row, .min_bytes = 1024};
  const auto pass = [&](const Tensor& in) {
    const std::size_t before = fake->device.statistics().to_host.bytes;
    {
      const SaveOnCpu offload(options);
      Tensor h = in.detach().set_requires_grad();
      for (int i = 0; i < 12; ++i) h = tanh(h);
    }
    return fake->device.statistics().to_host.bytes - before;
  };
  const Tensor smaller = narrow(x, 0, 0, 200);
  const std::size_t first = pass(x), known = pass(x), other = pass(smaller);
  EXPECT_LT(known, first);
  EXPECT_EQ(pass(x), known);
  EXPECT_LT(pass(smaller), other);
}

TEST_F(SavesOnCpu, AScopeAroundSeveralPassesLearnsToo) {
  const SaveOnCpu offload({.keep = 4 * row, .min_bytes = 1024});
  const auto pass = [&] {
    const std::size_t before = fake->device.statistics().to_host.bytes;
    Tensor h = x.detach().set_requires_grad();
    for (int i = 0; i < 12; ++i) h = tanh(h);
    mean(h).backward();
    return fake->device.statistics().to_host.bytes - before;
  };
  const std::size_t first = pass(), second = pass();
  EXPECT_LT(second, first);
  EXPECT_EQ(pass(), second);
}

TEST_F(SavesOnCpu, APredictionLearnsNothingFromAnother) {
  const SaveOnCpuOptions options{.keep = 4 * row, .min_bytes = 1024};
  const auto program = [&options] {
    auto model = std::make_shared<Net>();
    return [=, &options] {
      const memory::Step step;
      model->zero_grad();
      const SaveOnCpu offload(options);
      mean((*model)(empty({256, 64}, DType::f32, default_device(), Role::input))).backward();
    };
  };
  const memory::Prediction first = memory::predict(gpu, program), second = memory::predict(gpu, program);
  EXPECT_EQ(test::first_difference(first.snapshot.events, second.snapshot.events), "");
  ASSERT_EQ(first.others.size(), second.others.size());
  for (std::size_t i = 0; i < first.others.size(); ++i)
    EXPECT_EQ(test::first_difference(first.others[i].events, second.others[i].events), "");
}

TEST_F(SavesOnCpu, NothingIsLearnedFromAPassThatFails) {
  const SaveOnCpuOptions options{.keep = 4 * row, .min_bytes = 1024};
  const auto pass = [&](int layers, bool fails) {
    const std::size_t before = fake->device.statistics().to_host.bytes;
    const SaveOnCpu offload(options);
    Tensor h = x.detach().set_requires_grad();
    for (int i = 0; i < layers; ++i) h = tanh(h);
    if (fails) throw ValueError("in the middle");
    return fake->device.statistics().to_host.bytes - before;
  };
  pass(12, false);
  const std::size_t known = pass(12, false);
  EXPECT_THROW(pass(5, true), ValueError);
  EXPECT_EQ(pass(12, false), known);
}

TEST_F(SavesOnCpu, LeavesWhatIsSmallOrNoActivation) {
  const Tensor y = loss({.keep = 0, .min_bytes = row + 1});
  EXPECT_EQ(fake->pinned.allocator().statistics().by_role[static_cast<int>(Role::saved)].peak, 0u);
  y.backward();
  x.storage().set_role(Role::input);
  const Tensor z = loss({.keep = 0, .min_bytes = 1});
  EXPECT_FALSE(x.storage().is_evicted());
  for (const Tensor& p : net->parameters()) EXPECT_FALSE(p.storage().is_evicted());
}

TEST_F(SavesOnCpu, AGraphThatIsDroppedLeavesNothingBehind) {
  { const Tensor y = loss({.keep = row, .min_bytes = 1}); }
  EXPECT_EQ(saved(), 0u);
  synchronize(gpu);
  EXPECT_EQ(fake->pinned.allocator().statistics().by_role[static_cast<int>(Role::saved)].current, 0u);
}

TEST_F(SavesOnCpu, NothingComesBackForAGraphThatIsDropped) {
  {
    const Tensor y = loss({.keep = 6 * row, .min_bytes = 1024});
    fake->done.clear();
  }
  EXPECT_EQ(std::count(fake->done.begin(), fake->done.end(), "copy on 15"), 0);
}

TEST_F(SavesOnCpu, WorksUnderHigherDerivativesAndCheckpoints) {
  const auto second = [&](std::size_t keep) {
    const Tensor a = x.detach().set_requires_grad();
    const SaveOnCpu offload({.keep = keep, .min_bytes = 1});
    const Tensor y = mean(checkpoint(*net, a) * a);
    const Tensor g = grad({y}, {a}, {.create_graph = true})[0];
    return grad({sum(g * g)}, {a})[0].to_vector<float>();
  };
  EXPECT_EQ(second(2 * row), second(all));
}

// A rule may have the address of one tensor when another comes back, which is saved anew.
TEST_F(SavesOnCpu, NothingGoesWhileARuleRuns) {
  const auto gradient = [&](std::size_t keep) {
    const Tensor a = x.detach().set_requires_grad(), w = to(rand({64}, DType::f32, Device::cpu()), gpu);
    const SaveOnCpu offload({.keep = keep, .min_bytes = 1});
    const SavedTensorHooks hooks(
        [](const Tensor& t) -> SavedTensorHooks::Unpack { return [copy = clone(t)] { return clone(copy); }; });
    mean(tanh(layer_norm(tanh(a), {64}, w.detach().set_requires_grad(), {}, 1e-5))).backward();
    return a.grad().to_vector<float>();
  };
  manual_seed(1);
  const auto expected = gradient(all);
  manual_seed(1);
  EXPECT_EQ(gradient(0), expected);
}

TEST_F(SavesOnCpu, OpsThatSaveSeveralLeaveNoneBehind) {
  Tensor h = tanh(x.detach().set_requires_grad());
  const SaveOnCpu offload({.keep = 0, .min_bytes = 1});
  for (int i = 0; i < 12; ++i) {
    const Tensor weight = exp(h);
    h = binary_cross_entropy_with_logits(tanh(h), sigmoid(h), {.reduction = Reduction::none, .pos_weight = weight});
    EXPECT_LE(saved(), 6 * row) << i;
  }
}

TEST_F(SavesOnCpu, WhatARecordedStepWorksWithStays) {
  const Tensor a = x.detach().set_requires_grad();
  const SaveOnCpu offload({.keep = 0, .min_bytes = 1});
  Tensor y = exp(a), z = tanh(y);
  y.storage().disallow_eviction();
  for (int i = 0; i < 5; ++i) z = tanh(z);
  EXPECT_FALSE(y.storage().is_evicted());
}

TEST_F(SavesOnCpu, AGradientStays) {
  Tensor a = x.detach().set_requires_grad();
  const SaveOnCpu offload({.keep = 0, .min_bytes = 1});
  const Tensor y = exp(a);
  Tensor z = tanh(y);
  a.set_grad(y.detach());
  for (int i = 0; i < 5; ++i) z = tanh(z);
  EXPECT_FALSE(y.storage().is_evicted());
}

TEST_F(SavesOnCpu, WhatTheHostHasNoMemoryForStays) {
  const auto expected = gradients({.keep = all});
  synchronize(gpu);
  fake->pinned.allocator().empty_cache();
  fake->pinned.allocator().set_limit(0);
  EXPECT_EQ(gradients({.keep = 0, .min_bytes = 1}), expected);
}

TEST_F(SavesOnCpu, WhyAliveKnowsWhoKeepsWhatIsAway) {
  const Tensor a = x.detach().set_requires_grad();
  const SaveOnCpu offload({.keep = 0, .min_bytes = 1});
  const Tensor e = exp(a), t = tanh(e);
  Tensor z = t;
  for (int i = 0; i < 5; ++i) z = sigmoid(z);
  ASSERT_TRUE(e.storage().is_evicted());
  const std::string text = why_alive(e, {{"e", e}});
  EXPECT_THAT(text, testing::HasSubstr("saved for backward, allocated by evict"));
  EXPECT_THAT(text, testing::HasSubstr("  exp, which saved it"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("sigmoid, which saved it")));
  EXPECT_TRUE(e.storage().is_evicted());
}

TEST_F(SavesOnCpu, OfScopesInEachOtherTheInnermostCounts) {
  const SaveOnCpu outer({.keep = 0, .min_bytes = 1});
  const Tensor y = loss({.keep = all});
  EXPECT_EQ(fake->pinned.allocator().statistics().by_role[static_cast<int>(Role::saved)].peak, 0u);
}

TEST_F(SavesOnCpu, AnOverwrittenTensorIsFoundOut) {
  Tensor a = x.detach().set_requires_grad(), y, z;
  {
    const SaveOnCpu offload({.keep = 0, .min_bytes = 1});
    y = tanh(a);
    z = sum(tanh(tanh(tanh(y))));
  }
  EXPECT_TRUE(y.storage().is_evicted());
  {
    const NoGrad no_grad;
    fill_(y, 1);
  }
  EXPECT_THROWS_SAYING(z.backward(), AutogradError, "was overwritten by 'fill_'");
}

TEST_F(SavesOnCpu, IsPredictedToTheByte) {
  const auto program = [&] {
    auto model = std::make_shared<Net>();
    return [=, this] {
      const memory::Step step;
      model->zero_grad();
      const Tensor in = empty({256, 64}, DType::f32, default_device(), Role::input);
      const SaveOnCpu offload({.keep = 4 * row, .min_bytes = 1024});
      mean((*model)(in)).backward();
    };
  };
  const memory::Prediction p = memory::predict(gpu, program);
  ASSERT_TRUE(p.is_settled());
  net.reset();
  x = {};
  fake->start_anew();
  const auto step = program();
  for (std::size_t i = 0; i < p.steps.size(); ++i) step();
  EXPECT_EQ(test::first_difference(fake->device.snapshot().events, p.snapshot.events), "");
  const auto pinned =
      std::find_if(p.others.begin(), p.others.end(), [](const auto& s) { return s.name == "pinned:meta:cuda"; });
  ASSERT_NE(pinned, p.others.end());
  EXPECT_EQ(test::first_difference(fake->pinned.allocator().snapshot().events, pinned->events), "");
}

TEST_F(SavesOnCpu, APredictionWithinTheScopeIsOfTheProgramAlone) {
  const auto program = [] {
    auto model = std::make_shared<Net>();
    return [=] {
      const memory::Step step;
      model->zero_grad();
      mean((*model)(empty({256, 64}, DType::f32, default_device(), Role::input))).backward();
    };
  };
  const memory::Prediction alone = memory::predict(gpu, program);
  const SaveOnCpu offload({.keep = 0, .min_bytes = 1});
  const memory::Prediction within = memory::predict(gpu, program);
  EXPECT_EQ(test::first_difference(within.snapshot.events, alone.snapshot.events), "");
  EXPECT_EQ(within.others.size(), alone.others.size());
}

TEST(SavesOnCpuWithoutAGpu, NothingHappens) {
  const Tensor a = rand({100}).set_requires_grad();
  const SaveOnCpu offload({.keep = 0, .min_bytes = 1});
  sum(tanh(tanh(tanh(a)))).backward();
  EXPECT_TRUE(a.grad().defined());
}

}  // namespace
}  // namespace bytetape
