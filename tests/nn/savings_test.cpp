#include "bytetape/nn/savings.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/format.h"
#include "tests/support/expect.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/memory.h"

namespace bytetape::nn {
namespace {

constexpr std::int64_t width = 256, large_batch = 1024, small_batch = 16;

/// Does as its memory options say.
struct Training {
  Sequential net{Linear(width, width), BatchNorm1d(width), ReLU(), Linear(width, width), BatchNorm1d(width), ReLU(),
                 Linear(width, width)};
  optim::SGD sgd{net.parameters(), {.lr = 0.1}};
  MemoryOptions memory_options;
  std::int64_t batch;
  std::optional<optim::StepInBackward> in_backward;

  Training(const MemoryOptions& memory_options, std::int64_t batch) : memory_options(memory_options), batch(batch) {
    memory_options.apply(net);
    if (memory_options.step_in_backward) in_backward.emplace(sgd);
  }
  void operator()() {
    const memory::Step step;
    const Tensor x = randn({batch, width}, DType::f32, default_device(), default_generator(), memory::Role::input);
    if (!in_backward) sgd.zero_grad();
    Tensor loss;
    {
      const SaveOnCpu offload(memory_options.saved);
      std::optional<Recompute> recompute;
      if (memory_options.recompute) recompute.emplace();
      loss = mse_loss(net(x), x);
    }
    loss.backward();
    if (!in_backward) sgd.step();
  }
};
Training training(const MemoryOptions& memory_options) { return {memory_options, large_batch}; }

std::vector<std::string> names(const std::vector<Saving>& all) {
  std::vector<std::string> found;
  for (const Saving& s : all) found.push_back(s.memory_option);
  return found;
}

/// The peak of steps that are taken.
std::size_t measured(Device device, const MemoryOptions& memory_options, std::int64_t batch = large_batch) {
  memory::empty_cache(device);
  EXPECT_EQ(test::allocated(device), 0u);
  memory::reset_peaks(device);
  const DefaultDevice here(device);
  Training program(memory_options, batch);
  for (int i = 0; i < 3; ++i) program();
  return memory::stats(device).allocated.peak;
}

TEST(Savings, AreWhatStepsComeTo) {
  const auto [large, small] = std::pair(std::string("Recompute"), std::string("StepInBackward"));
  for (const auto& [batch, expected] : {std::pair(large_batch, large), std::pair(small_batch, small)}) {
    const auto of_batch = [n = batch](const MemoryOptions& memory_options) { return Training(memory_options, n); };
    const std::vector<Saving> all = savings(Device::cpu(), of_batch);
    EXPECT_THAT(names(all), testing::ElementsAre(expected));
    for (const Saving& s : all) {
      SCOPED_TRACE(s.text());
      EXPECT_EQ(s.peak, measured(Device::cpu(), {}, batch));
      EXPECT_EQ(s.peak_then, measured(Device::cpu(), s.memory_options, batch));
      EXPECT_LT(s.peak_then, s.peak);
      EXPECT_EQ(s.pinned, 0u);
      EXPECT_THAT(s.text(),
                  testing::StartsWith(s.memory_option + ": peak " + memory::format_bytes(s.peak) + " \u2192 "));
      EXPECT_THAT(s.text(), testing::EndsWith("%)"));
    }
  }
}

TEST(Savings, OfADeviceWithPinnedMemoryAreMore) {
  const test::FakeGpu fake;
  const std::vector<Saving> all = savings(fake.gpu, training);
  const auto offload =
      std::find_if(all.begin(), all.end(), [](const Saving& s) { return s.memory_option == "SaveOnCpu"; });
  ASSERT_NE(offload, all.end());
  EXPECT_GT(offload->pinned, 0u);
  EXPECT_TRUE(offload->memory_options.offloads());
  EXPECT_EQ(offload->peak_then, measured(fake.gpu, offload->memory_options));
  EXPECT_THAT(offload->text(), testing::HasSubstr(" of pinned memory of the host"));
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const Saving& a, const Saving& b) { return a.peak_then < b.peak_then; }));
  EXPECT_THAT(names(savings(fake.gpu, training, {.offload = false})), testing::Not(testing::Contains("SaveOnCpu")));
}

TEST(Savings, OfALeverThatAProgramDoesNotFollowAreNone) {
  EXPECT_TRUE(savings(Device::cpu(), [](const MemoryOptions&) { return training({}); }).empty());
}

TEST(Savings, OfWhatDoesNotFitAreNone) {
  EXPECT_TRUE(savings(Device::cpu(), training, {}, {.limit = std::size_t{1} << 20}).empty());
}

TEST(Savings, CountFromOnePerCentOnAndOnlyWhatIsPinnedBesides) {
  struct Case {
    std::size_t peak, pinned;
    bool fits = true;
  };
  const auto saved = [](const Case& recompute, const Case& in_backward, const Case& offload) {
    return bytetape::detail::savings({}, [&](const MemoryOptions& o) {
      const Case& c = o.recompute          ? recompute
                      : o.step_in_backward ? in_backward
                      : o.offloads()       ? offload
                                           : Case{10000, 50};
      memory::Prediction p;
      p.snapshot.statistics.allocated.peak = c.peak;
      for (const char* name : {"pinned:cuda", "cpu"}) {
        p.others.push_back({.name = name});
        p.others.back().statistics.allocated.peak = name[0] == 'p' ? c.pinned : 7777 + c.pinned;
      }
      if (!c.fits) p.out_of_memory.emplace(memory::Shortage{});
      return p;
    });
  };
  std::vector<Saving> all = saved({9901, 50}, {9900, 20}, {5000, 80});
  ASSERT_THAT(names(all), testing::ElementsAre("SaveOnCpu", "StepInBackward"));
  EXPECT_EQ(all[0].pinned, 30u);
  EXPECT_EQ(all[1].pinned, 0u) << "fewer are pinned than without";
  EXPECT_EQ(all[0].text(), "SaveOnCpu: peak 9.77 KiB \u2192 4.88 KiB (\u221250 %), +30 B of pinned memory of the host");
  EXPECT_THAT(all[1].text(), testing::EndsWith("(\u22121 %)"));
  all = saved({20000, 0}, {10, 0, false}, {9000, 50});
  EXPECT_THAT(names(all), testing::ElementsAre("SaveOnCpu"));
}

/// Sleeps as long as its memory options say, and counts what is built.
struct Sleeping {
  std::chrono::milliseconds time;
  void operator()() const {
    randn({2});
    std::this_thread::sleep_for(time);
  }
};

TEST(Savings, AreTimedByStepsThatRun) {
  std::vector<Saving> all{{.memory_option = "Recompute", .memory_options = {.recompute = true}, .peak = 100},
                          {.memory_option = "StepInBackward", .memory_options = {.step_in_backward = true}},
                          {.memory_option = "SaveOnCpu", .memory_options = {.saved = {.keep = 0}}}};
  all[0].peak_then = 50;
  int built = 0;
  const auto program = [&](const MemoryOptions& o) {
    ++built;
    if (o.offloads()) throw OutOfMemory(memory::Shortage{});
    return Sleeping{std::chrono::milliseconds(o.recompute ? 12 : o.step_in_backward ? 2 : 6)};
  };
  const PhiloxState before = default_generator().state();
  time_savings(all, Device::cpu(), program, {.rounds = 3, .warm_up = 1, .steps = 4, .min_seconds = 0.1});
  EXPECT_EQ(built, 3 * 4);
  EXPECT_EQ(default_generator().state().offset, before.offset);
  ASSERT_TRUE(all[0].step_time && all[0].step_time_then && all[1].step_time_then);
  EXPECT_GE(*all[0].step_time, 6e-3);
  EXPECT_GE(*all[0].step_time_then, 12e-3);
  EXPECT_LT(*all[1].step_time_then, *all[1].step_time);
  EXPECT_FALSE(all[2].step_time_then) << "it ran out of memory";
  EXPECT_THAT(all[2].text(), testing::Not(testing::HasSubstr("a step")));
  all[0].step_time = 0.050, all[0].step_time_then = 0.0531;
  EXPECT_THAT(all[0].text(), testing::EndsWith("(\u221250 %), +3.10 ms a step (+6 %)"));
  all[0].step_time_then = 0.049;
  EXPECT_THAT(all[0].text(), testing::EndsWith(", \u22121.00 ms a step (\u22122 %)"));
  all[0].step_time_then = 0.0502;
  EXPECT_THAT(all[0].text(), testing::EndsWith(", less than 1 % of a step's time"));
}

TEST(Savings, AreTimedWithProgramsThatCannotBeMoved) {
  struct Fixed : Training {
    explicit Fixed(const MemoryOptions& o) : Training(o, small_batch) {}
    Fixed(const Fixed&) = delete;
  };
  const auto fixed = [](const MemoryOptions& o) { return Fixed(o); };
  std::vector<Saving> all = savings(Device::cpu(), fixed);
  ASSERT_FALSE(all.empty());
  time_savings(all, Device::cpu(), fixed, {.rounds = 1, .warm_up = 0, .steps = 1, .min_seconds = 0});
  for (const Saving& s : all) {
    EXPECT_GT(s.step_time.value_or(0), 0);
    EXPECT_GT(s.step_time_then.value_or(0), 0);
  }
}

TEST(Savings, AreNotTimedInNoSteps) {
  std::vector<Saving> all{{.memory_option = "Recompute"}};
  for (const TimingOptions& o : {TimingOptions{.rounds = 0}, TimingOptions{.steps = 0}, TimingOptions{.warm_up = -1}})
    EXPECT_THROWS_SAYING(time_savings(all, Device::cpu(), training, o), ValueError,
                         "time_savings: expected rounds and steps above 0, and a warm_up and ");
}

TEST(Savings, ThatWereTimedAreForgottenIfStepsThrow) {
  std::vector<Saving> all{{.memory_option = "Recompute", .step_time = 1, .step_time_then = 2}};
  const auto program = [](const MemoryOptions&) { return [] { fail<ValueError>("a bad step"); }; };
  EXPECT_THROWS_SAYING(time_savings(all, Device::cpu(), program), ValueError, "a bad step");
  EXPECT_FALSE(all[0].step_time || all[0].step_time_then);
}

TEST(Savings, AreNotTimedInACapture) {
  std::vector<Saving> all{{.memory_option = "Recompute", .memory_options = {.recompute = true}}};
  const DefaultDevice meta(Device::meta(Device::cuda()));
  auto step = capture([&](const Tensor& x) {
    time_savings(all, Device::cpu(), training, {.rounds = 1, .warm_up = 0, .steps = 1, .min_seconds = 0});
    return x + 1;
  });
  const auto calls = [&] {
    for (int i = 0; i < 3; ++i) step(zeros({2}));
  };
  EXPECT_THROWS_SAYING(calls(), CaptureError, "times steps");
}

TEST(Savings, RefuseARecording) {
  EXPECT_THROWS_SAYING(savings(Device::cpu(), training, {}, {.recording = "a"}), ValueError,
                       "savings: a recording is of one prediction");
  EXPECT_THROWS_SAYING(fit(Device::cpu(), 1, training, {}, {.recording = "a"}), ValueError,
                       "fit: a recording is of one prediction");
}

TEST(MemoryOptions, AddUp) {
  const MemoryOptions some{.checkpointed = {"0"}, .saved = {.keep = 5}, .recompute = true};
  const MemoryOptions more{.checkpointed = {"1"}, .step_in_backward = true};
  const MemoryOptions all = some.with(more);
  EXPECT_EQ(all.checkpointed, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(all.saved.keep, 5u);
  EXPECT_TRUE(all.recompute && all.step_in_backward);
  EXPECT_EQ(more.with(some).saved.keep, 5u);
  EXPECT_EQ(some.with({.saved = {.keep = 7}}).saved.keep, 7u);
}

}  // namespace
}  // namespace bytetape::nn
