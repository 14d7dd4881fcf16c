// The work that recordings count, from the kernels of forward and backward.
#include "bytetape/core/memory/work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "bytetape/autograd/capture.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/step.h"
#include "bytetape/core/memory/times.h"
#include "tests/support/random.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

/// FLOP, bytes and launches, with the phase setup as forward (step_times), by "op phase" or, in a module, "module op
/// phase".
using Counts = std::map<std::string, std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>>;

Counts counts_of(const Log& log, std::uint32_t table) {
  Counts counts;
  for (const WorkCount& w : log.work_counts) {
    if (w.table != table) continue;
    const std::string module = w.module ? log.names[w.module] + " " : "";
    auto& [flop, bytes, launches] =
        counts[module + log.names[w.op] + " " + to_string(w.phase == Phase::setup ? Phase::forward : w.phase)];
    flop += w.flop;
    bytes += w.bytes;
    launches += w.launches;
  }
  return counts;
}

Log recorded(const std::function<void()>& work) {
  const test::TemporaryDir dir;
  Recording recording(dir / "run.memlog", "the test");
  work();
  recording.finish();
  return read_log(dir / "run.memlog");
}

/// The counts of `work` in a step of the device.
Counts counted(const std::function<void()>& work, Device device = Device::cpu()) {
  const Log log = recorded([&] {
    const DefaultDevice here(device);
    const Step step(device);
    work();
  });
  EXPECT_EQ(log.counted_steps.size(), 1u);
  return log.counted_steps.empty() ? Counts() : counts_of(log, log.counted_steps[0].table);
}

std::uint64_t flop(const Counts& counts, const std::string& of) {
  const auto at = counts.find(of);
  return at == counts.end() ? 0 : std::get<0>(at->second);
}
std::uint64_t bytes(const Counts& counts, const std::string& of) {
  const auto at = counts.find(of);
  return at == counts.end() ? 0 : std::get<1>(at->second);
}

Tensor leaf(const Shape& shape) { return ones(shape).set_requires_grad(); }

TEST(CountedWork, OfALinearLayerIsItsProducts) {
  constexpr std::uint64_t m = 6, k = 5, n = 4;
  const Counts counts = counted([] { sum(linear(leaf({m, k}), leaf({n, k}))).backward(); });
  EXPECT_EQ(flop(counts, "linear forward"), 2 * m * n * k);
  EXPECT_EQ(bytes(counts, "linear forward"), 4 * (m * k + n * k + m * n));
  EXPECT_EQ(flop(counts, "linear backward"), 2 * 2 * m * n * k) << "the gradients of x and of the weight";
  const Counts of_weight = counted([] { sum(linear(ones({m, k}), leaf({n, k}))).backward(); });
  EXPECT_EQ(flop(of_weight, "linear backward"), 2 * m * n * k);
}

TEST(CountedWork, OfAConvolutionIsItsPatches) {
  constexpr std::uint64_t product = 2 * (2 * 4 * 6 * 6) * (3 * 3 * 3);
  const Counts counts = counted([] { sum(conv2d(leaf({2, 3, 8, 8}), leaf({4, 3, 3, 3}))).backward(); });
  EXPECT_EQ(flop(counts, "conv2d forward"), product);
  EXPECT_EQ(flop(counts, "conv2d backward"), 2 * product);
}

TEST(CountedWork, OfAttentionIsTwoProductsAndFive) {
  constexpr std::uint64_t pairs = 2 * 3 * 5 * 5, d = 8;
  const auto attend = [](bool causal) {
    const Shape shape{2, 3, 5, d};
    sum(scaled_dot_product_attention(leaf(shape), leaf(shape), leaf(shape), {.causal = causal})).backward();
  };
  const Counts whole = counted([&] { attend(false); });
  EXPECT_EQ(flop(whole, "scaled_dot_product_attention forward"), 2 * pairs * 2 * d);
  EXPECT_EQ(flop(whole, "scaled_dot_product_attention backward"), 2 * pairs * 5 * d);
  EXPECT_EQ(flop(counted([&] { attend(true); }), "scaled_dot_product_attention forward"), 2 * 2 * 3 * 15 * 2 * d);
}

TEST(CountedWork, OfALossOverChunksIsThatOfAllChunks) {
  constexpr std::uint64_t rows = 12, width = 4, classes = 10;
  const Counts counts = counted([] {
    const Tensor target = zeros({rows}, DType::i64);
    linear_cross_entropy(leaf({rows, width}), leaf({classes, width}), target).backward();
  });
  std::uint64_t all = 0;
  for (const auto& [of, count] : counts)
    if (of.starts_with("linear_cross_entropy")) all += std::get<0>(count);
  EXPECT_EQ(all, 3 * 2 * rows * width * classes);
}

TEST(CountedWork, OfAViewIsNothing) {
  const Counts counts = counted([] { transpose(ones({4, 8}), 0, 1); });
  EXPECT_EQ(counts.count("transpose forward"), 0u);
  EXPECT_EQ(bytes(counted([] {
                    exp(expand(ones({8}), {4, 8}));
                  }),
                  "exp forward"),
            4u * (8 + 32))
      << "elements that a stride of 0 repeats are read once";
}

TEST(CountedWork, HasTheModuleAndPhaseOfTheOp) {
  const Counts counts = counted([] {
    const ModuleScope module(intern("net.one"));
    sum(relu(leaf({4, 8}))).backward();
  });
  EXPECT_EQ(bytes(counts, "net.one relu forward"), 2u * 128);
  EXPECT_EQ(bytes(counts, "net.one relu backward"), 2u * 128 + 4)
      << "y, its gradient, which is one number, and the gradient of x";
}

TEST(CountedWork, IsThatOfAMetaDevice) {
  const auto step = [] {
    const Tensor x = leaf({4, 3, 8, 8}), w = leaf({6, 3, 3, 3}), v = leaf({10, 216});
    cross_entropy(linear(flatten(relu(conv2d(x, w)), 1), v), zeros({4}, DType::i64)).backward();
  };
  const Counts real = counted(step), predicted = counted(step, Device::meta());
  EXPECT_GT(real.size(), 8u);
  EXPECT_EQ(real, predicted);
}

TEST(CountedWork, IsOfStepsWhileARecordingRuns) {
  const auto work = [] { matmul(ones({4, 4}), ones({4, 4})); };
  EXPECT_EQ(work_counters, 0);
  work();
  const Log log = recorded([&] {
    work();
    for (int i = 0; i < 3; ++i) {
      const Step step;
      for (int k = 0; k < (i == 1 ? 2 : 1); ++k) work();
    }
    work();
    const Step empty;
  });
  EXPECT_EQ(work_counters, 0);
  ASSERT_EQ(log.counted_steps.size(), 4u);
  std::vector<std::uint32_t> tables;
  for (const CountedStep& s : log.counted_steps) tables.push_back(s.table);
  EXPECT_EQ(tables, (std::vector<std::uint32_t>{0, 1, 0, no_work})) << "steps of equal work share a table";
  EXPECT_EQ(flop(counts_of(log, 0), "matmul forward"), 2u * 64);
  EXPECT_EQ(flop(counts_of(log, 1), "matmul forward"), 2u * 128);
}

TEST(CountedWork, IsOfStepsThatTheNextOneEnds) {
  const Log log = recorded([] {
    Allocator& cpu = memory::allocator(Device::cpu());
    for (const std::uint32_t number : {1u, 2u, 1u}) {
      cpu.begin_step(number);
      matmul(ones({4, 4}), ones({4, 4}));
    }
    cpu.end_step();
  });
  ASSERT_EQ(log.counted_steps.size(), 3u);
  for (const CountedStep& s : log.counted_steps) EXPECT_EQ(flop(counts_of(log, s.table), "matmul forward"), 128u);
  const std::vector<StepTime> times = step_times(log);
  ASSERT_EQ(times.size(), 3u);
  for (const StepTime& s : times) EXPECT_TRUE(s.is_counted) << s.step;
}

TEST(CountedWork, OfThreadsWithOneNumberIsApart) {
  const Log log = recorded([] {
    const Step step(Device::cpu(), 7);
    matmul(ones({4, 4}), ones({4, 4}));
    std::thread([] {
      const Step other(Device::cpu(), 7);
      for (int i = 0; i < 2; ++i) matmul(ones({4, 4}), ones({4, 4}));
    }).join();
  });
  ASSERT_EQ(log.counted_steps.size(), 2u);
  EXPECT_EQ(flop(counts_of(log, log.counted_steps[0].table), "matmul forward"), 256u);
  EXPECT_EQ(flop(counts_of(log, log.counted_steps[1].table), "matmul forward"), 128u);
}

TEST(CountedWork, OfACapturedStepIsThatOfItsReplays) {
  const Device gpu = Device::meta(Device::cuda());
  const DefaultDevice here(gpu);
  Tensor w = leaf({5, 4});
  const Tensor x = ones({3, 4});
  const auto step = [&](const Tensor& x) {
    w.set_grad({});
    const Tensor loss = sum(linear(x, w));
    loss.backward();
    return loss;
  };
  auto captured_before = capture(step);  // before the recording
  for (int i = 0; i < 3; ++i) captured_before(x);
  ASSERT_TRUE(captured_before.is_captured());
  auto captured = capture(step);
  const Log log = recorded([&] {
    for (int i = 0; i < 5; ++i) {
      const Step step(gpu);
      captured(x);
    }
    const Step step(gpu);
    captured_before(x);
  });
  EXPECT_EQ(work_counters, 0);
  ASSERT_EQ(log.counted_steps.size(), 6u);
  for (const CountedStep& s : log.counted_steps) {
    const Counts counts = counts_of(log, s.table);
    EXPECT_EQ(flop(counts, "linear forward"), 2u * 3 * 4 * 5) << "step " << s.step;
    EXPECT_EQ(flop(counts, "linear backward"), 2u * 3 * 4 * 5) << "step " << s.step;
    EXPECT_EQ(bytes(counts, "linear forward"), 4u * (12 + 20 + 15)) << "step " << s.step;
  }
}

TEST(CountedWork, OfFailedCapturesIsForgotten) {
  const Device gpu = Device::meta(Device::cuda());
  const DefaultDevice here(gpu);
  int calls = 0;
  auto fails = capture([&](const Tensor& x) {
    const Tensor y = exp(x);
    if (++calls == 3) fail<ValueError>("not this time");
    return y;
  });
  const Tensor x = ones({3});
  fails(x), fails(x);
  EXPECT_THROW(fails(x), ValueError);
  EXPECT_EQ(work_counters, 0);
  EXPECT_EQ(ambient.captured_work, nullptr);
}

TEST(CountedWork, IsInTheTimesOfSteps) {
  const Log log = recorded([] {
    const Step step;
    matmul(ones({4, 6}), ones({6, 8}));
  });
  const std::vector<StepTime> steps = step_times(log);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_TRUE(steps[0].is_counted);
  EXPECT_FALSE(steps[0].has_gpu_work);
  const auto row = std::ranges::find_if(steps[0].rows, [&](const OpTime& r) { return log.names[r.op] == "matmul"; });
  ASSERT_NE(row, steps[0].rows.end());
  EXPECT_EQ(row->flop, 2u * 4 * 6 * 8);
  EXPECT_EQ(steps[0].time_of_work(*row), row->time);
}

}  // namespace
}  // namespace bytetape::memory
