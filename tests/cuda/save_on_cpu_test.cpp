// SaveOnCpu on a GPU, in plain and in captured steps: bits, bytes and events. tests/autograd/save_on_cpu_test.cpp and
// captured_offload_test.cpp test its rules without one.
#include "bytetape/autograd/save_on_cpu.h"

#include <functional>
#include <memory>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"
#include "tests/cuda/gpu.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape::test {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
const SaveOnCpuOptions none{.keep = SaveOnCpuOptions::everything};

/// Ten layers, each on the next of `streams` streams.
struct Layers : nn::Module {
  std::vector<nn::Sequential> all;
  int streams;
  explicit Layers(int streams) : streams(streams) {
    all.reserve(10);
    for (int i = 0; i < 10; ++i) {
      nn::Sequential& layer = all.emplace_back();
      register_module("layer" + std::to_string(i), layer);
      layer.push_back(nn::Conv2d(i ? 32 : 3, 32, 3, {.padding = 1})).push_back(nn::BatchNorm2d(32));
      layer.push_back(nn::ReLU());
    }
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const StreamScope on(Stream(static_cast<int>(i) % streams));
      y = all[i](y);
    }
    return y;
  }
};

struct Training {
  SaveOnCpuOptions options;
  Layers model;
  optim::SGD sgd{model.parameters(), {.lr = 0.01}};

  explicit Training(const SaveOnCpuOptions& options, int streams = 1) : options(options), model(streams) {}
  Tensor operator()(const Tensor& x) {
    sgd.zero_grad();
    Tensor loss;
    {
      const SaveOnCpu offload(options);
      const Tensor y = model(x);
      loss = mean(y * y);
    }
    loss.backward();
    sgd.step();
    return loss.detach();
  }
};

class CudaSaveOnCpu : public GpuTest {
 protected:
  ~CudaSaveOnCpu() override {
    if (IsSkipped()) return;
    synchronize(gpu);
    EXPECT_EQ(allocated(gpu), 0u);
    EXPECT_EQ(memory::pinned_for(gpu)->allocator().statistics().allocated.current, 0u);
  }
  static Tensor images() { return randn({32, 3, 64, 64}); }
  /// The losses of some steps, then the parameters and gradients.
  static std::vector<float> train(const SaveOnCpuOptions& options, int steps, bool is_captured, int streams = 1) {
    const DefaultDevice here(gpu);
    manual_seed(7);
    Training training(options, streams);
    auto captured = capture([&](const Tensor& x) { return training(x); });
    std::vector<float> values;
    for (int i = 0; i < steps; ++i) {
      const Tensor x = images();
      values.push_back((is_captured ? captured(x) : training(x)).item<float>());
    }
    EXPECT_EQ(captured.is_captured(), is_captured && steps > 2);
    for (const Tensor& p : training.model.parameters())
      for (const Tensor& x : {p.detach(), p.grad()})
        for (const float v : x.to_vector<float>()) values.push_back(v);
    return values;
  }
};

TEST_F(CudaSaveOnCpu, GivesTheSameBitsInLessMemory) {
  const auto measured = [&](const SaveOnCpuOptions& options) {
    memory::reset_peaks(gpu);
    const auto values = train(options, 3, false);
    return std::pair(values, memory::stats(gpu).allocated.peak);
  };
  const auto [expected, plain] = measured(none);
  for (const std::size_t keep : {std::size_t{0}, 40 * mib, 100 * mib})
    for (int i = 0; i < 3; ++i) {
      const auto [values, peak] = measured({.keep = keep});
      EXPECT_EQ(values, expected) << keep;
      EXPECT_LT(peak, plain) << keep;
    }
}

// Twenty replays, each with other images.
TEST_F(CudaSaveOnCpu, GivesTheSameBitsInCapturedSteps) {
  for (const int streams : {1, 2}) {
    const auto expected = train(none, 23, false, streams);
    EXPECT_EQ(train(none, 23, true, streams), expected);
    for (const std::size_t keep : {std::size_t{0}, 40 * mib, 100 * mib}) {
      EXPECT_EQ(train({.keep = keep}, 23, false, streams), expected) << keep / mib << " MiB, " << streams << " streams";
      EXPECT_EQ(train({.keep = keep}, 23, true, streams), expected) << keep / mib << " MiB, " << streams << " streams";
    }
  }
}

TEST_F(CudaSaveOnCpu, TakesLessMemoryInCapturedSteps) {
  const auto pool_of = [&](const SaveOnCpuOptions& options) {
    const DefaultDevice here(gpu);
    Training training(options);
    auto captured = capture([&](const Tensor& x) { return training(x); });
    const Tensor x = images();
    captured(x), captured(x);
    const std::size_t before = allocated(gpu);
    captured(x);
    return allocated(gpu) - before;
  };
  EXPECT_LT(2 * pool_of({.keep = 20 * mib}), pool_of(none));
}

TEST_F(CudaSaveOnCpu, HasThePredictedEventsInCapturedSteps) {
  const auto program = [](Device device) {
    const DefaultDevice here(device);
    Training training({.keep = 20 * mib});
    auto captured = capture([&](const Tensor& x) { return training(x); });
    for (int i = 0; i < 6; ++i) captured(images());
  };
  const auto events_of = [&](Device device) {
    memory::Allocator& host = memory::pinned_for(device)->allocator();
    synchronize(device);
    host.empty_cache();
    host.reset_log();
    const auto on_device = record_events(device, program);
    return std::pair(on_device, host.snapshot().events);
  };
  const auto [on_device, on_host] = events_of(gpu);
  const auto [there, on_host_there] = events_of(Device::meta(gpu));
  EXPECT_GT(on_host.size(), 100u);
  EXPECT_EQ(first_difference(on_device, there), "");
  EXPECT_EQ(first_difference(on_host, on_host_there), "");
}

// Each has host memory of its own, and steps beside them have other memory still.
TEST_F(CudaSaveOnCpu, SeveralCapturedStepsTakeTurns) {
  const auto losses = [&](bool is_captured) {
    const DefaultDevice here(gpu);
    manual_seed(9);
    Training a({.keep = 0}), b({.keep = 30 * mib}, 2), c({.keep = 0});
    using Step = std::function<Tensor(const Tensor&)>;
    auto step_a = std::make_unique<CapturedStep<Step>>([&](const Tensor& x) { return a(x); });
    auto step_b = capture([&](const Tensor& x) { return b(x); });
    std::vector<float> all;
    for (int i = 0; i < 8; ++i) {
      const Tensor x = images();
      for (const Tensor& loss : {is_captured ? (*step_a)(x) : a(x), c(x), is_captured ? step_b(x) : b(x)})
        all.push_back(loss.item<float>());
      if (i == 3) step_a = std::make_unique<CapturedStep<Step>>([&](const Tensor& y) { return a(y); });
    }
    return all;
  };
  EXPECT_EQ(losses(true), losses(false));
}

TEST_F(CudaSaveOnCpu, ACaptureThatFailsLeavesNothingBehind) {
  const DefaultDevice here(gpu);
  const auto values = [&](bool fails) {
    manual_seed(5);
    Training training({.keep = 0});
    int calls = 0;
    auto captured = capture([&](const Tensor& x) {
      if (fails && ++calls == 3) {
        const SaveOnCpu offload({.keep = 0});
        const Tensor y = training.model(x);
        throw ValueError("in the middle");
      }
      return training(x);
    });
    std::vector<float> all;
    for (int i = 0; i < 6; ++i) {
      const Tensor x = images();
      if (fails && i == 2) {
        synchronize(gpu);
        const std::size_t there = allocated(gpu);
        EXPECT_THROW(captured(x), ValueError);
        EXPECT_EQ(allocated(gpu), there);
      }
      all.push_back(captured(x).item<float>());
    }
    EXPECT_TRUE(captured.is_captured());
    return all;
  };
  EXPECT_EQ(values(true), values(false));
}

TEST_F(CudaSaveOnCpu, WhatACapturedStepLeavesOnTheHostIsRefused) {
  const DefaultDevice here(gpu);
  const Tensor a = randn({1 << 20}).set_requires_grad();
  a.storage().set_role(memory::Role::parameter);
  Tensor kept;
  auto step = capture([&](const Tensor& x) {
    const SaveOnCpu offload({.keep = 0});
    kept = tanh(x * a);
    Tensor y = kept;
    for (int i = 0; i < 4; ++i) y = tanh(y);
    return y;
  });
  const Tensor x = randn({1 << 20});
  for (int i = 0; i < 5; ++i) step(x);
  EXPECT_THROWS_SAYING(kept + 1, CaptureError, "a captured step has offloaded this memory to the host");
  kept = {};
}

}  // namespace
}  // namespace bytetape::test
