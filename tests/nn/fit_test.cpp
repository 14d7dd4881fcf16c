#include "bytetape/nn/fit.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/format.h"
#include "tests/support/expect.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/memory.h"
#include "tests/support/threads.h"

namespace bytetape::nn {
namespace {

using Paths = std::vector<std::string>;

constexpr std::int64_t width = 64, batch = 2048;

Sequential block() {
  return Sequential(Linear(width, 2 * width), Tanh(), Linear(2 * width, 2 * width), Tanh(), Linear(2 * width, width),
                    Tanh());
}

/// Two groups of three blocks, whose paths are "0.0" to "1.2", and a head.
// [training]
struct Training {
  Sequential net{Sequential(block(), block(), block()), Sequential(block(), block(), block()), Linear(width, 10)};
  optim::SGD sgd{net.parameters(), {.lr = 0.1, .momentum = 0.9}};
  MemoryOptions memory_options;
  explicit Training(const MemoryOptions& memory_options) : memory_options(memory_options) { memory_options.apply(net); }

  Tensor operator()() {
    const memory::Step step;
    sgd.zero_grad();
    const Tensor x = randn({batch, width}, DType::f32, default_device(), default_generator(), memory::Role::input);
    const Tensor y = randint(0, 10, batch, DType::i64, default_device(), default_generator(), memory::Role::input);
    Tensor loss;
    {
      const SaveOnCpu offload(memory_options.saved);
      loss = cross_entropy(net(x), y);
    }
    loss.backward();
    sgd.step();
    return loss.detach();
  }
};
// [training]

Fit fit_training(Device device, std::size_t limit, const FitOptions& options = {}) {
  return fit(
      device, limit, [](const MemoryOptions& memory_options) { return Training(memory_options); }, options);
}
std::size_t peak(Device device) {
  return memory::predict(device, [] { return Training(MemoryOptions{}); }).peak_reserved();
}
bool fits(Device device, std::size_t limit, const MemoryOptions& memory_options) {
  return memory::predict(device, [&] { return Training(memory_options); }, {.limit = limit}).fits();
}

/// Losses of some steps, and their last weights, under a limit.
std::vector<float> train(Device device, std::size_t limit, const MemoryOptions& memory_options) {
  memory::empty_cache(device);
  EXPECT_EQ(test::allocated(device), 0u);
  memory::set_limit(limit, device);
  std::vector<float> values;
  {
    const DefaultDevice here(device);
    manual_seed(5);
    Training training(memory_options);
    for (int i = 0; i < 2; ++i) values.push_back(training().item<float>());
    for (const Tensor& p : training.net.parameters())
      for (const float v : p.to_vector<float>()) values.push_back(v);
    EXPECT_LE(memory::stats(device).reserved.peak, limit);
  }
  memory::empty_cache(device);
  memory::set_limit(memory::snapshot(device).capacity, device);
  memory::reset_peaks(device);
  return values;
}

TEST(Fit, LeavesAloneWhatFits) {
  const std::size_t need = peak(Device::cpu());
  const Fit f = fit(Device::cpu(), need, [](const MemoryOptions& memory_options) { return Training(memory_options); });
  EXPECT_TRUE(f.fits());
  EXPECT_TRUE(f.memory_options.checkpointed.empty());
  EXPECT_FALSE(f.memory_options.offloads());
  EXPECT_THAT(f.text(), testing::HasSubstr("as it is"));
}

TEST(Fit, ChoosesCheckpointsNoneOfWhichCanBeLeftOut) {
  const Device cpu = Device::cpu();
  const std::size_t need = peak(cpu);
  const std::vector<float> expected = train(cpu, memory::snapshot(cpu).capacity, {});
  std::size_t chosen_before = 0;
  for (const double part : {0.9, 0.65, 0.5}) {
    SCOPED_TRACE(part);
    const auto limit = static_cast<std::size_t>(part * static_cast<double>(need));
    const Fit f = fit_training(cpu, limit);
    ASSERT_TRUE(f.fits()) << f.text();
    EXPECT_FALSE(f.memory_options.offloads());
    EXPECT_LE(f.with.peak_reserved(), limit);
    EXPECT_LE(f.without.peak_allocated(), need);
    EXPECT_GT(f.without.peak_allocated(), limit);
    EXPECT_GT(f.recompute_fraction, 0);
    EXPECT_LT(f.recompute_fraction, 1);
    for (const std::string& module : f.memory_options.checkpointed) {
      MemoryOptions fewer = f.memory_options;
      std::erase(fewer.checkpointed, module);
      EXPECT_FALSE(fits(cpu, limit, fewer)) << module;
    }
    EXPECT_GE(f.memory_options.checkpointed.size(), chosen_before);
    chosen_before = f.memory_options.checkpointed.size();
    if (part > 0.5) continue;
    EXPECT_EQ(train(cpu, limit, f.memory_options), expected);
  }
  EXPECT_GE(chosen_before, 2u);
}

/// Six blocks of convolutions and norms, whose results with an activation are cheap to recompute.
struct NormedTraining {
  struct Block : Module {
    Conv2d first{16, 16, 3, {.padding = 1}}, second{16, 16, 3, {.padding = 1}};
    BatchNorm2d norm1{16}, norm2{16};
    Block() {
      register_module("first", first), register_module("norm1", norm1);
      register_module("second", second), register_module("norm2", norm2);
    }
    Tensor forward(const Tensor& x) override {
      return norm2(second(norm1(first(x), Activation::relu)), Activation::relu);
    }
  };
  Sequential net{Block(), Block(), Block(), Block(), Block(), Block()};
  explicit NormedTraining(const MemoryOptions& memory_options) { memory_options.apply(net); }
  Tensor operator()() {
    const memory::Step step;
    net.zero_grad();
    const Tensor y = mean(net(randn({256, 16, 16, 16})));
    y.backward();
    return y.detach();
  }
};

TEST(Fit, RecomputesCheapResultsRatherThanWholeModules) {
  const auto make = [](const MemoryOptions& memory_options) { return NormedTraining(memory_options); };
  const auto need = [&](const MemoryOptions& memory_options) {
    return memory::predict(Device::cpu(), [&] { return make(memory_options); }, {.threads = 1}).peak_reserved();
  };
  const std::size_t limit = (need({}) + need({.recomputing = {""}})) / 2;
  const auto fit_it = [&](const FitOptions& options) {  // by one thread: workspaces of more could hide what is saved
    return test::with_threads(1, [&] { return fit(Device::cpu(), limit, make, options); });
  };
  const Fit f = fit_it({}), whole = fit_it({.recompute = false});
  ASSERT_TRUE(f.fits() && whole.fits());
  EXPECT_TRUE(f.memory_options.checkpointed.empty()) << f.text();
  EXPECT_FALSE(f.memory_options.recomputing.empty());
  EXPECT_TRUE(whole.memory_options.recomputing.empty());
  EXPECT_LT(f.recompute_fraction, 0.5 * whole.recompute_fraction);
  EXPECT_THAT(f.text(), testing::HasSubstr("with Recompute in "));
  EXPECT_TRUE(fit_it({.checkpoint = false}).fits());

  const auto losses = [](const MemoryOptions& memory_options) {
    manual_seed(11);
    NormedTraining training(memory_options);
    std::vector<float> values{training().item<float>()};
    for (const Tensor& p : training.net.parameters())
      for (const float v : p.grad().to_vector<float>()) values.push_back(v);
    return values;
  };
  EXPECT_EQ(losses(f.memory_options), losses({}));
}

TEST(Fit, SaysWhatIsMissing) {
  const Fit f = fit_training(Device::cpu(), std::size_t{1} << 20);
  EXPECT_FALSE(f.fits());
  EXPECT_THAT(f.text(), testing::StartsWith("does not fit into 1.00 MiB: it takes "));
  EXPECT_THAT(f.text(), testing::HasSubstr("more than the limit even with checkpoints of "));
  EXPECT_THAT(fit_training(Device::cpu(), 1 << 20, {.checkpoint = false}).text(),
              testing::HasSubstr("no recomputation"));
}

TEST(Fit, ThatFailsNamesTheSmallestLimitThatWouldDo) {
  const Device cpu = Device::cpu();
  for (const FitOptions& options : {FitOptions{}, FitOptions{.checkpoint = false}}) {
    const Fit f = fit_training(cpu, std::size_t{1} << 20, options);
    ASSERT_FALSE(f.fits());
    EXPECT_TRUE(fits(cpu, f.enough, f.memory_options));
    EXPECT_FALSE(fits(cpu, f.enough - f.enough / 512, f.memory_options));
    EXPECT_TRUE(fit_training(cpu, f.enough, options).fits());
    EXPECT_THAT(f.text(), testing::HasSubstr(" bytes) is enough"));
    EXPECT_THAT(f.text(), testing::HasSubstr(" (" + memory::format_exact(f.enough) + " bytes)"));
  }
  EXPECT_EQ(fit_training(cpu, peak(cpu)).enough, 0u);
}

TEST(Fit, TellsItsResultInWords) {
  const std::size_t kib = 1 << 10;
  const auto text = [&](const Paths& checkpointed, std::size_t keep, bool fits) {
    Fit f{.memory_options = {.checkpointed = checkpointed, .saved = {.keep = keep}}, .limit = 512 * kib};
    f.without.snapshot.statistics.reserved.peak = 700 * kib;
    f.with.snapshot.statistics.reserved.peak = 500 * kib;
    f.recompute_fraction = 0.408;
    if (fits) return f.text();
    f.enough = 600 * kib;
    f.with.out_of_memory.emplace(memory::Shortage{});
    return f.text();
  };
  constexpr std::size_t all = SaveOnCpuOptions::everything;
  const std::string checkpoints = "checkpoints of 0, 1.2 (41 % of forward runs again)",
                    missing = "; 600 KiB (614,400 bytes) is enough";
  EXPECT_EQ(text({}, all, true), "fits into 512 KiB as it is: 700 KiB");
  EXPECT_EQ(text({"0", "1.2"}, all, true), "fits into 512 KiB with " + checkpoints + ": 500 KiB instead of 700 KiB");
  EXPECT_EQ(text({}, 0, true), "fits into 512 KiB with all saved tensors on the host: 500 KiB instead of 700 KiB");
  EXPECT_EQ(text({"0", "1.2"}, 9 * kib, true),
            "fits into 512 KiB with " + checkpoints +
                ", and all but 9.00 KiB of saved tensors on the host: 500 KiB instead of 700 KiB");
  EXPECT_EQ(text({}, all, false), "does not fit into 512 KiB: it takes 700 KiB, and no recomputation helps" + missing);
  EXPECT_EQ(text({"0", "1.2"}, all, false),
            "does not fit into 512 KiB: it takes 700 KiB, and more than the limit even with " + checkpoints + missing +
                " with that");
  EXPECT_EQ(text({}, 9 * kib, false),
            "does not fit into 512 KiB: it takes 700 KiB, and more than the limit even with all but 9.00 KiB of saved "
            "tensors on the host" +
                missing + " with that");
}

TEST(Fit, NeedsOneModel) {
  const auto apply = [](int models) {
    return [models](const MemoryOptions& memory_options) {
      auto net = std::make_shared<Sequential>(Linear(2, 2));
      for (int i = 0; i < models; ++i) memory_options.apply(*net);
      return [net] { empty({1 << 20}); };
    };
  };
  for (const int models : {0, 2})
    EXPECT_THROWS_SAYING(fit(Device::cpu(), 1 << 20, apply(models)), ValueError,
                         "fit: the program applies its memory options to " + std::to_string(models) + " models");
  const Fit f = fit(Device::cpu(), 1 << 20, apply(1));
  EXPECT_FALSE(f.fits());
  EXPECT_EQ(f.recompute_fraction, 0) << "of nothing";
}

TEST(Fit, KnowsAModelThatRunsInAScope) {
  struct Scoped : Training {
    using Training::Training;
    Tensor operator()() {
      const memory::Scope scope("encoder");
      return Training::operator()();
    }
  };
  const std::size_t limit = peak(Device::cpu()) / 2;
  const Fit f = fit(Device::cpu(), limit, [](const MemoryOptions& memory_options) { return Scoped(memory_options); });
  const Fit plain = fit_training(Device::cpu(), limit);
  EXPECT_EQ(f.memory_options.checkpointed, plain.memory_options.checkpointed);
  EXPECT_NEAR(f.recompute_fraction, plain.recompute_fraction, 1e-9);
}

TEST(Fit, NamesModulesThatRecompute) {
  const auto text = [](const Paths& checkpointed, const Paths& recomputing) {
    Fit f{.memory_options = {.checkpointed = checkpointed, .recomputing = recomputing}, .limit = 512 << 10};
    f.without.snapshot.statistics.reserved.peak = 700 << 10;
    f.with.snapshot.statistics.reserved.peak = 500 << 10;
    f.recompute_fraction = 0.02;
    return f.text();
  };
  EXPECT_EQ(text({}, {"0", "1"}),
            "fits into 512 KiB with Recompute in 0, 1 (2 % of forward runs again): 500 KiB instead of 700 KiB");
  EXPECT_EQ(text({"2"}, {""}),
            "fits into 512 KiB with checkpoints of 2, and Recompute in the model (2 % of forward runs again): 500 KiB "
            "instead of 700 KiB");
}

TEST(Fit, LeavesTheProgramsOwnOptions) {
  Sequential net{Sequential(Linear(4, 4), Tanh()), Sequential(Linear(4, 4), Tanh())};
  checkpoint_modules(net, {"0"});
  MemoryOptions{.checkpointed = {"1"}}.apply(net);
  for (const auto& [path, module] : net.named_modules()) EXPECT_EQ(module->is_checkpointed(), path.size() == 1) << path;
  net.set_recomputing();
  MemoryOptions{.recomputing = {"1"}}.apply(net);
  EXPECT_TRUE(net.is_recomputing() && net[1].is_recomputing() && !net[0].is_recomputing());
  EXPECT_THROW(MemoryOptions{.checkpointed = {"2"}}.apply(net), ValueError);
  EXPECT_THROW(MemoryOptions{.recomputing = {"2"}}.apply(net), ValueError);
}

class FitOnAGpu : public testing::Test {
 protected:
  const std::unique_ptr<test::FakeGpu> fake = std::make_unique<test::FakeGpu>();
  const Device gpu = test::FakeGpu::gpu;
};

TEST_F(FitOnAGpu, KeepsAsMuchAsThereIsRoomFor) {
  const std::size_t need = peak(gpu);
  const std::vector<float> expected = train(gpu, fake->device.capacity(), {});
  for (const double part : {0.8, 0.4}) {
    SCOPED_TRACE(part);
    const auto limit = static_cast<std::size_t>(part * static_cast<double>(need));
    const Fit f = fit_training(gpu, limit, {.checkpoint = false});
    ASSERT_TRUE(f.fits()) << f.text();
    EXPECT_TRUE(f.memory_options.checkpointed.empty());
    ASSERT_TRUE(f.memory_options.offloads());
    EXPECT_THAT(f.text(), testing::HasSubstr("saved tensors on the host"));
    MemoryOptions more = f.memory_options;
    more.saved.keep += f.memory_options.saved.keep / 16 + need / 32;
    EXPECT_FALSE(fits(gpu, limit, more));
    if (part > 0.4) continue;
    EXPECT_EQ(train(gpu, limit, f.memory_options), expected);
  }
}

TEST_F(FitOnAGpu, OffloadsWhereCheckpointsAreNotEnough) {
  const std::size_t need = peak(gpu);
  for (double part = 0.9; part > 0.1; part -= 0.05) {
    const auto limit = static_cast<std::size_t>(part * static_cast<double>(need));
    if (fit_training(gpu, limit, {.offload = false}).fits()) continue;
    const Fit f = fit_training(gpu, limit);
    ASSERT_TRUE(f.fits()) << f.text();
    EXPECT_TRUE(f.memory_options.offloads());
    EXPECT_TRUE(f.memory_options.checkpointed.empty());  // which are not needed then
    MemoryOptions more = f.memory_options;
    more.saved.keep += f.memory_options.saved.keep / 16 + need / 32;
    EXPECT_FALSE(fits(gpu, limit, more)) << "no more is offloaded than must be";
    const std::vector<float> expected = train(gpu, fake->device.capacity(), {});
    EXPECT_EQ(train(gpu, limit, f.memory_options), expected);
    return;
  }
  FAIL() << "checkpoints were always enough";
}

}  // namespace
}  // namespace bytetape::nn
