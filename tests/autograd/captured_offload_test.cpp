// SaveOnCpu in captured steps, on a fake device in the host's memory. tests/cuda/save_on_cpu_test.cpp tests it on a
// GPU.
#include <algorithm>
#include <memory>
#include <set>

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

constexpr std::size_t row = std::size_t{64} << 10;  // bytes of a layer's result
const SaveOnCpuOptions none{.keep = SaveOnCpuOptions::everything}, little{.keep = 4 * row, .min_bytes = 1024};

struct Net : nn::Module {
  std::vector<nn::Linear> layers;
  Net() {
    layers.reserve(12);
    for (int i = 0; i < 12; ++i) register_module("layer" + std::to_string(i), layers.emplace_back(64, 64));
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (nn::Linear& layer : layers) h = tanh(layer(h));
    return h;
  }
};

class OffloadsCaptured : public testing::Test {
 protected:
  OffloadsCaptured() {
    manual_seed(3);
    net.emplace();
    x = to(randn({256, 64}, DType::f32, Device::cpu()), gpu);
    x.storage().set_role(Role::input);
  }
  ~OffloadsCaptured() override {
    net.reset();
    x = {};
    EXPECT_EQ(test::allocated(gpu), 0u);
    synchronize(gpu);
    EXPECT_EQ(pinned().allocated.current, 0u);
  }
  memory::Statistics pinned() { return fake->pinned.allocator().statistics(); }
  memory::Statistics device() { return fake->device.statistics(); }

  Tensor parameter() const {
    const Tensor a = (x + 1).set_requires_grad();
    a.storage().set_role(Role::parameter);
    return a;
  }
  // It has no arguments, because it computes while it is recorded, before a replay copies them.
  Tensor step(const SaveOnCpuOptions& options) {
    net->zero_grad();
    Tensor loss;
    {
      const SaveOnCpu offload(options);
      loss = mean((*net)(x));
    }
    loss.backward();
    return loss;
  }
  std::vector<std::vector<float>> gradients() {
    std::vector<std::vector<float>> values;
    for (const Tensor& p : net->parameters()) values.push_back(p.grad().to_vector<float>());
    return values;
  }
  auto captured(const SaveOnCpuOptions& options) {
    return capture([this, options] { return step(options); });
  }

  const std::unique_ptr<test::FakeGpu> fake = std::make_unique<test::FakeGpu>();
  const Device gpu = test::FakeGpu::gpu;
  const DefaultDevice here{gpu};
  std::optional<Net> net;
  Tensor x;
};

// The third call computes while it is recorded, with copies that are as late as may be.
TEST_F(OffloadsCaptured, TheBitsAreThoseOfThePlainStep) {
  const Tensor loss = step(none);
  const auto expected = gradients();
  for (const std::size_t keep : {std::size_t{0}, row, 4 * row, 9 * row + 1}) {
    SCOPED_TRACE(keep / row);
    auto train = captured({.keep = keep, .min_bytes = 1});
    for (int i = 0; i < 2; ++i) train();
    const std::uint64_t waited = fake->waited;
    net->zero_grad();
    const Tensor y = train();
    ASSERT_TRUE(train.is_captured());
    EXPECT_EQ(fake->waited, waited) << "the host waits for no copy of a recording";
    EXPECT_EQ(y.to_vector<float>(), loss.to_vector<float>());
    EXPECT_EQ(gradients(), expected);
  }
}

TEST_F(OffloadsCaptured, NoMoreStaysOnTheDeviceThanIsToBeKept) {
  const auto saved = [&](const SaveOnCpuOptions& options) {
    auto train = captured(options);
    for (int i = 0; i < 2; ++i) train();
    fake->device.reset_peaks();
    train();
    return device().by_role[static_cast<std::size_t>(Role::saved)].peak;
  };
  EXPECT_GE(saved(none), 12 * row);
  EXPECT_EQ(saved(little), 5 * row) << "one more than is kept, until the oldest is gone";
}

// A replay copies what a plain step copies, and says so.
TEST_F(OffloadsCaptured, EachReplayLogsItsCopies) {
  auto train = captured(little);
  const auto copied = [&] {
    const auto before = device();
    train();
    const auto after = device();
    return std::pair(after.to_host.bytes - before.to_host.bytes, after.to_device.bytes - before.to_device.bytes);
  };
  copied();
  const auto plain = copied(), recorded = copied(), replayed = copied();
  ASSERT_TRUE(train.is_captured());
  EXPECT_GT(plain.first, 7 * row);
  EXPECT_GT(plain.second, 7 * row);
  EXPECT_EQ(recorded, plain);
  EXPECT_EQ(replayed, plain);
}

// The two plain calls tell what leaves.
TEST_F(OffloadsCaptured, CopiesOnlyWhatLeaves) {
  auto train = captured({.keep = 6 * row, .min_bytes = 1024});
  for (int i = 0; i < 3; ++i) train();
  ASSERT_TRUE(train.is_captured());
  const auto before = device();
  train();
  const auto after = device();
  EXPECT_GT(after.to_host.bytes, before.to_host.bytes);
  EXPECT_EQ(after.to_host.bytes - before.to_host.bytes, after.to_device.bytes - before.to_device.bytes);
}

TEST_F(OffloadsCaptured, TheHostMemoryBelongsToTheStep) {
  const auto addresses = [&](auto& train) {
    train(), train();
    fake->sent_from.clear();
    train();
    EXPECT_TRUE(train.is_captured());
    return std::set(fake->sent_from.begin(), fake->sent_from.end());
  };
  auto first = std::make_unique<decltype(captured(little))>(captured(little));
  const auto its = addresses(*first);
  EXPECT_FALSE(its.empty());
  auto second = captured(little);
  const auto others = addresses(second);
  for (const void* a : its) EXPECT_FALSE(others.contains(a));
  step(little);
  synchronize(gpu);
  const std::size_t both = pinned().allocated.current;
  first.reset();
  EXPECT_LT(pinned().allocated.current, both);
  second();
}

TEST_F(OffloadsCaptured, IsPredictedToTheByte) {
  const auto program = [&] {
    auto model = std::make_shared<Net>();
    auto train =
        std::make_shared<CapturedStep<std::function<void(const Tensor&)>>>([=, options = little](const Tensor& in) {
          model->zero_grad();
          Tensor loss;
          {
            const SaveOnCpu offload(options);
            loss = mean((*model)(in));
          }
          loss.backward();
        });
    return [=, this] {
      const memory::Step step;
      (*train)(empty({256, 64}, DType::f32, default_device(), Role::input));
    };
  };
  const memory::Prediction p = memory::predict(gpu, program);
  ASSERT_TRUE(p.is_settled());
  ASSERT_GE(p.steps.size(), 4u);
  net.reset();
  x = {};
  fake->start_anew();
  {
    const auto step = program();
    for (std::size_t i = 0; i < p.steps.size(); ++i) step();
    EXPECT_GT(fake->replays, 0);
    EXPECT_EQ(test::first_difference(fake->device.snapshot().events, p.snapshot.events), "");
  }
  const auto host =  // once the program has ended
      std::find_if(p.others.begin(), p.others.end(), [](const auto& s) { return s.name == "pinned:meta:cuda"; });
  ASSERT_NE(host, p.others.end());
  EXPECT_EQ(test::first_difference(fake->pinned.allocator().snapshot().events, host->events), "");
}

TEST_F(OffloadsCaptured, AStepThatFailsLeavesNothingBehind) {
  bool fails = true;
  auto train = capture([&] {
    net->zero_grad();
    const SaveOnCpu offload(little);
    const Tensor loss = mean((*net)(x));
    if (fails && detail::core_ambient.capture) throw ValueError("in the middle");
    loss.backward();
    return loss;
  });
  train(), train();
  net->zero_grad();
  synchronize(gpu);
  const std::size_t there = test::allocated(gpu), on_host = pinned().allocated.current;
  EXPECT_THROWS_SAYING(train(), ValueError, "in the middle");
  net->zero_grad();
  synchronize(gpu);
  EXPECT_EQ(test::allocated(gpu), there);
  EXPECT_EQ(pinned().allocated.current, on_host);
  EXPECT_FALSE(train.is_captured());
  fails = false;
  train();
  EXPECT_TRUE(train.is_captured());
  const auto values = gradients();
  step(none);
  EXPECT_EQ(gradients(), values);
}

TEST_F(OffloadsCaptured, WithoutHostMemoryTheRestStays) {
  step(none);
  const auto expected = gradients();
  auto train = captured({.keep = 0, .min_bytes = 1});
  train(), train();
  synchronize(gpu);
  fake->pinned.allocator().empty_cache();
  fake->pinned.allocator().set_limit(3 * row);
  train();
  ASSERT_TRUE(train.is_captured());
  EXPECT_EQ(gradients(), expected);
}

TEST_F(OffloadsCaptured, OutputsComeBack) {
  const Tensor a = parameter();
  const auto result = [&](const SaveOnCpuOptions& options) {
    const SaveOnCpu offload(options);
    const Tensor y = tanh(x * a);
    Tensor z = y;
    for (int i = 0; i < 5; ++i) z = tanh(z);
    EXPECT_EQ(y.storage().is_evicted(), options.keep == 0);
    return y;
  };
  auto train = capture([&] { return result({.keep = 0, .min_bytes = 1}); });
  train(), train();
  const Tensor y = train();
  ASSERT_TRUE(train.is_captured());
  EXPECT_FALSE(y.storage().is_evicted());
  EXPECT_EQ(y.to_vector<float>(), result(none).to_vector<float>());
  EXPECT_THROWS_SAYING(y.storage().evict(), CaptureError, "a captured step or another library has the address");
}

// A replay would not bring it back.
TEST_F(OffloadsCaptured, WhatTheProgramKeepsBesideTheOutputsIsRefused) {
  const Tensor a = parameter();
  Tensor kept, loss;
  auto train = capture([&] {
    const SaveOnCpu offload({.keep = 0, .min_bytes = 1});
    kept = tanh(x * a);
    loss = kept;
    for (int i = 0; i < 5; ++i) loss = tanh(loss);
  });
  for (int i = 0; i < 3; ++i) train();
  ASSERT_TRUE(train.is_captured());
  ASSERT_TRUE(kept.storage().is_evicted());
  EXPECT_THROWS_SAYING(kept + 1, CaptureError, "a captured step has offloaded this memory to the host");
  EXPECT_THROWS_SAYING(sum(loss).backward(), CaptureError, "a captured step has offloaded this memory to the host");
  train();
}

TEST_F(OffloadsCaptured, OnlyMemoryOfTheStepMayLeave) {
  const Tensor before = x + 1, evicted = x + 2, used = x + 3;
  evicted.storage().evict();
  const auto third = [&](const std::function<void()>& f) {
    auto train = capture([&] {
      x + used;
      if (detail::core_ambient.capture) f();
    });
    for (int i = 0; i < 3; ++i) train();
  };
  EXPECT_THROWS_SAYING(third([&] { before.storage().evict(); }), CaptureError,
                       "can only evict memory that it allocates");
  EXPECT_THROWS_SAYING(third([&] { used.storage().evict(); }), CaptureError, "has the address of this memory");
  EXPECT_THROWS_SAYING(third([&] { evicted + 1; }), CaptureError,
                       "uses memory that was evicted before it: restore() it first");
  EXPECT_EQ(evicted.to_vector<float>(), (x + 2).to_vector<float>());
  before.storage().evict();
  EXPECT_EQ(before.to_vector<float>(), (x + 1).to_vector<float>());
}

TEST_F(OffloadsCaptured, WhatWasSavedBeforeTheStepStaysWhileItIsRecorded) {
  auto train = capture([&] {
    net->zero_grad();
    const Tensor loss = mean((*net)(x));
    loss.backward();
    return loss;
  });
  const auto gradient = [&](const SaveOnCpuOptions& options) {
    const SaveOnCpu offload(options);
    const Tensor leaf = x.detach().set_requires_grad();
    Tensor h = leaf;
    for (int i = 0; i < 12; ++i) h = tanh(h);
    train();
    sum(h).backward();
    return leaf.grad().to_vector<float>();
  };
  const auto expected = gradient(none);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(gradient(little), expected);
  EXPECT_TRUE(train.is_captured());
}

TEST_F(OffloadsCaptured, InputsStay) {
  auto train = capture([&](const Tensor& in) {
    if (detail::core_ambient.capture) in.storage().evict();
    return in + 1;
  });
  train(x), train(x);
  EXPECT_THROWS_SAYING(train(x), CaptureError, "has the address of this memory");
}

TEST_F(OffloadsCaptured, AStepMayEvictAndUseItsOwnTensors) {
  auto train = capture([&] {
    const Tensor y = x * 2;
    y.storage().evict();
    const StreamScope other(Stream(1));
    const Tensor z = y + 1;
    y.storage().copy_out();
    y.storage().drop_copy();
    return z;
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(train().to_vector<float>(), (x * 2 + 1).to_vector<float>());
  EXPECT_TRUE(train.is_captured());
}

/// Training in captured steps, on 2 MiB a layer.
struct CapturedTraining {
  struct Parts {
    nn::MemoryOptions options;
    Net net;
  };
  explicit CapturedTraining(const nn::MemoryOptions& options) : parts(new Parts{options, {}}) {
    options.apply(parts->net);
  }
  void operator()() {
    const memory::Step step;
    train(empty({8192, 64}, DType::f32, default_device(), Role::input));
  }

  std::shared_ptr<Parts> parts;
  CapturedStep<std::function<void(const Tensor&)>> train{[parts = parts](const Tensor& in) {
    parts->net.zero_grad();
    Tensor loss;
    {
      const SaveOnCpu offload(parts->options.saved);
      loss = mean(parts->net(in));
    }
    loss.backward();
  }};
};

TEST(SaveOnCpuInACapturedStep, IsChosenByFit) {
  const auto training = [](const nn::MemoryOptions& options) { return CapturedTraining(options); };
  const memory::Prediction plain = memory::predict(Device::cuda(), [&] { return training({}); });
  ASSERT_GE(plain.steps.size(), 3u);
  const std::size_t limit = plain.peak_allocated() / 10 * 9;
  const nn::Fit fit = nn::fit(Device::cuda(), limit, training, {.checkpoint = false});
  EXPECT_TRUE(fit.fits()) << fit.text();
  EXPECT_TRUE(fit.memory_options.offloads());
  EXPECT_GE(fit.with.steps.size(), 3u) << "the third one is recorded";
}

TEST(SaveOnCpuInACapturedStep, IsPredictedWithoutADevice) {
  const Device twin = Device::meta(Device::cuda());
  const auto peaks = [&](std::size_t keep) {
    return memory::predict(twin, [&] {
      auto layers = std::make_shared<Net>();
      auto train = std::make_shared<CapturedStep<std::function<void(const Tensor&)>>>([=](const Tensor& in) {
        layers->zero_grad();
        Tensor loss;
        {
          const SaveOnCpu offload({.keep = keep, .min_bytes = 0});
          loss = mean((*layers)(in));
        }
        loss.backward();
      });
      return [=] {
        const memory::Step step;
        (*train)(empty({8192, 64}, DType::f32, default_device(), Role::input));
      };
    });
  };
  const memory::Prediction plain = peaks(SaveOnCpuOptions::everything), offloaded = peaks(64 * row);
  ASSERT_TRUE(plain.is_settled() && offloaded.is_settled());
  EXPECT_LT(offloaded.peak_allocated() + 128 * row, plain.peak_allocated());
}

}  // namespace
}  // namespace bytetape
