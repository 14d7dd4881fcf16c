// Device times of recordings on a GPU: who launched each kernel, in plain and in captured steps.
#include <gmock/gmock.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/recording/step_timer.h"
#include "tests/cuda/gpu.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::test {
namespace {

using memory::DeviceWork;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Gt;
using testing::Pair;
using testing::SizeIs;

/// Returns the number of pieces of work of each op in each module.
using Counts = std::map<std::pair<std::string, std::string>, int>;

class CudaDeviceTimes : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    try {
      memory::device_timer();
    } catch (const DeviceError& e) { GTEST_SKIP() << e.what(); }
    memory::reset_log(gpu, memory::Ledger::default_log_capacity);  // steps count from 1
  }

  /// A recording of steps, each of which calls `step` once.
  memory::Log recorded(int steps, std::uint32_t every, const std::function<void()>& step) {
    memory::Recording recording(dir_ / "run.memlog", "device times", {.device_times_every = every});
    for (int i = 0; i < steps; ++i) {
      const memory::Step marks(gpu);
      step();
    }
    recording.finish();
    return memory::read_log(dir_ / "run.memlog");
  }

  TemporaryDir dir_;
  const DefaultDevice here_{gpu};
};

struct Net : nn::Module {
  nn::Linear up{256, 512};
  nn::LayerNorm norm{{512}};
  nn::Parameter weight = register_parameter("weight", randn({512, 10}));
  Net() {
    register_module("up", up);
    register_module("norm", norm);
  }
  Tensor forward(const Tensor& x) override { return matmul(norm(relu(up(x))), weight); }
};

/// A net, its optimizer and a batch.
struct Training {
  Training() : sgd(model.parameters(), {.lr = 0.01}), x(randn({64, 256})), y(randint(0, 10, 64)) {}
  Tensor step() {
    sgd.zero_grad();
    Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    sgd.step();
    return loss;
  }

  Net model;
  optim::SGD sgd;
  Tensor x, y;
};

Counts counts_of(const memory::Log& log, std::uint32_t step) {
  Counts counts;
  for (const DeviceWork& w : log.device_work)
    if (w.step == step) ++counts[{log.names[w.op], log.names[w.module]}];
  return counts;
}

/// Returns the times of each step's work in ms, added up.
std::map<std::uint32_t, double> ms_by_step(const memory::Log& log) {
  std::map<std::uint32_t, double> all;
  for (const DeviceWork& w : log.device_work) all[w.step] += static_cast<double>(w.end - w.begin) / 1e6;
  return all;
}

std::map<std::uint32_t, int> work_by_step(const memory::Log& log) {
  std::map<std::uint32_t, int> counts;
  for (const DeviceWork& w : log.device_work) ++counts[w.step];
  return counts;
}

/// How many pieces of work an op has in all modules.
int count_of(const Counts& counts, const std::string& op) {
  int sum = 0;
  for (const auto& [of, count] : counts)
    if (of.first == op) sum += count;
  return sum;
}

void expect_net(const Counts& counts) {
  EXPECT_THAT(counts, Contains(Pair(Pair("linear", "up"), Gt(1)))) << "forward and backward";
  EXPECT_THAT(counts, Contains(Pair(Pair("layer_norm", "norm"), Gt(1))));
  for (const char* op : {"matmul", "relu"}) EXPECT_GT(count_of(counts, op), 1) << op;
  for (const char* op : {"cross_entropy", "sgd"}) EXPECT_GT(count_of(counts, op), 0) << op;
}

void expect_sums(const memory::Log& log) {
  int timed = 0;
  for (const memory::StepTime& step : memory::step_times(log)) {
    if (!step.device) continue;
    ++timed;
    std::uint64_t sum = 0;
    for (const memory::OpTime& row : step.rows) sum += row.device_time;
    EXPECT_EQ(sum, step.device->busy);
    EXPECT_GT(step.device->busy, 0u);
    EXPECT_GE(step.device->begin + 100'000, step.begin) << "the clocks agree to 0.1 ms";
  }
  EXPECT_GT(timed, 0);
}

TEST_F(CudaDeviceTimes, OfAPlainStepAreThoseOfItsOpsAndModules) {
  Training training;
  const memory::Log log = recorded(3, 1, [&] { training.step(); });
  EXPECT_THAT(work_by_step(log), SizeIs(3));
  for (const std::uint32_t step : {2u, 3u}) expect_net(counts_of(log, step));
  std::set<memory::Phase> phases;
  for (const DeviceWork& w : log.device_work) {
    EXPECT_NE(w.op, 0u) << log.names[w.name];
    EXPECT_EQ(w.name != 0, w.kind == DeviceWork::Kind::kernel);
    EXPECT_EQ(log.devices.at(w.device).name, to_string(gpu));
    EXPECT_GT(w.time(), 0u);
    phases.insert(w.phase);
  }
  EXPECT_THAT(phases, ElementsAre(memory::Phase::forward, memory::Phase::backward, memory::Phase::optimizer));
  expect_sums(log);
}

TEST_F(CudaDeviceTimes, OfAReplayAreThoseOfTheRecordedOps) {
  Training training;
  auto captured = capture([&] { return training.step(); });
  const memory::Log log = recorded(8, 1, [&] { captured(); });
  ASSERT_TRUE(captured.is_captured());
  const Counts eager = counts_of(log, 2);
  for (std::uint32_t step = 4; step <= 8; ++step) {
    const Counts replayed = counts_of(log, step);
    expect_net(replayed);
    for (const auto& [of, count] : eager)
      EXPECT_THAT(replayed, Contains(Pair(of, Gt(0)))) << of.first << " in " << of.second << ", step " << step;
    EXPECT_EQ(replayed, counts_of(log, 8)) << "all replays are alike";
  }
  expect_sums(log);
}

/// Whether other processes use the GPU, whose kernels run between those of a step.
bool is_shared(Device device) {
  constexpr std::size_t least = 128 << 20, most = 1 << 30;  // bytes of a context and the libraries
  const auto outside = memory::snapshot(device).outside;
  if (!outside) return false;
  return outside->others ? *outside->others > least : outside->bytes > most;
}

// A step of tens of milliseconds, of which the launch and the host's wait are a small part.
TEST_F(CudaDeviceTimes, AddUpToTheTimeByTheHostsClock) {
  if (is_shared(gpu)) GTEST_SKIP() << "other processes use the GPU";
  const Tensor a = randn({4096, 4096});
  auto captured = capture([&] {
    Tensor y = a;
    for (int i = 0; i < 12; ++i) y = matmul(y, a) * (1.0 / 64);
    return y;
  });
  std::vector<double> clock;  // nanoseconds
  const memory::Log log = recorded(8, 1, [&] {
    synchronize(gpu);
    const auto begin = std::chrono::steady_clock::now();
    captured();
    synchronize(gpu);
    clock.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
  });
  ASSERT_TRUE(captured.is_captured());
  for (const memory::StepTime& step : memory::step_times(log)) {
    ASSERT_TRUE(step.device.has_value());
    if (step.step <= 4) continue;  // eager and captured steps
    std::uint64_t sum = step.device->idle();
    for (const memory::OpTime& row : step.rows) sum += row.device_time;
    EXPECT_NEAR(static_cast<double>(sum), clock.at(step.step - 1), 0.02 * clock.at(step.step - 1))
        << "step " << step.step << ", " << step.device->idle() << " ns idle";
  }
}

TEST_F(CudaDeviceTimes, OfAGraphThatWasCapturedBeforeAreItsLaunchers) {
  Training training;
  auto captured = capture([&] { return training.step(); });
  for (int i = 0; i < 4; ++i) captured();
  ASSERT_TRUE(captured.is_captured());
  const memory::Log log = recorded(2, 1, [&] { captured(); });
  EXPECT_THAT(work_by_step(log), Each(Pair(testing::_, Gt(5)))) << "its kernels are timed";
  for (const DeviceWork& w : log.device_work) EXPECT_EQ(log.names[w.op], "captured_step") << log.names[w.name];
}

TEST_F(CudaDeviceTimes, AreWholeInEveryKthStep) {
  Training training;
  auto captured = capture([&] { return training.step(); });
  const memory::Log log = recorded(24, 4, [&] { captured(); });  // no step waits for the device
  EXPECT_THAT(work_by_step(log), SizeIs(6));
  for (const auto& [step, count] : work_by_step(log)) {
    EXPECT_EQ(step % 4, 0u);
    EXPECT_EQ(counts_of(log, step), counts_of(log, 24)) << "nothing of step " << step << " is lost";
  }
  for (const memory::StepTime& step : memory::step_times(log)) EXPECT_EQ(step.device.has_value(), step.step % 4 == 0);
}

// The device is several steps behind when the host ends a timed step. Steps that are not timed launch the same graph.
TEST_F(CudaDeviceTimes, AreWholeIfTheHostIsFarAhead) {
  const bool shared = is_shared(gpu);  // then other processes' work lies within the times
  const Tensor a = randn({2048, 2048});
  const auto step = [&] {
    Tensor y = a;
    for (int i = 0; i < 12; ++i) y = matmul(y, a) * (1.0 / 64);
    return y;
  };
  for (const bool is_captured : {false, true})
    for (const std::uint32_t every : {1u, 2u, 3u, 5u}) {
      SCOPED_TRACE(testing::Message() << (is_captured ? "captured" : "eager") << ", every " << every);
      auto captured = capture(step);
      memory::reset_log(gpu, memory::Ledger::default_log_capacity);
      const memory::Log log = recorded(40, every, [&] { is_captured ? captured() : step(); });
      EXPECT_EQ(captured.is_captured(), is_captured);
      std::map<std::uint32_t, double> ms = ms_by_step(log);
      ASSERT_THAT(ms, SizeIs(40 / every));
      const auto& [last, last_ms] = *ms.rbegin();  // no later step can harm its times
      EXPECT_GE(count_of(counts_of(log, last), "matmul"), 12);
      for (const auto& [timed, time] : ms) {
        if (timed <= 4) continue;  // first use, or eager and captured steps
        EXPECT_EQ(counts_of(log, timed), counts_of(log, last)) << "nothing of step " << timed << " is lost";
        if (!shared) { EXPECT_NEAR(time, last_ms, 0.4 * last_ms) << "step " << timed; }
      }
    }
}

TEST_F(CudaDeviceTimes, AreInASecondRecordingAndNotInOneWithoutThem) {
  Training training;
  const memory::Log first = recorded(2, 1, [&] { training.step(); });
  EXPECT_THAT(recorded(2, 0, [&] { training.step(); }).device_work, SizeIs(0));
  const memory::Log second = recorded(2, 1, [&] { training.step(); });
  ASSERT_GT(first.device_work.size(), 0u);
  EXPECT_EQ(counts_of(second, 6), counts_of(first, 2));
}

TEST_F(CudaDeviceTimes, HaveCopiesWithTheirBytes) {
  const Tensor x = ones({1000}, DType::f32, Device::cpu());
  const memory::Log log = recorded(1, 1, [&] {
    const Tensor y = to(x, gpu) + 1.0;
    EXPECT_EQ(y.to_vector<float>()[0], 2.0f);
  });
  std::map<DeviceWork::Kind, std::uint64_t> bytes;
  for (const DeviceWork& w : log.device_work) bytes[w.kind] += w.bytes;
  EXPECT_EQ(bytes[DeviceWork::Kind::to_device], 4000u);
  EXPECT_GE(bytes[DeviceWork::Kind::to_host], 4000u);
  EXPECT_EQ(bytes[DeviceWork::Kind::kernel], 0u);
}

TEST_F(CudaDeviceTimes, HaveCopiesBetweenGpus) {
  SKIP_WITHOUT_ANOTHER_GPU();
  const Tensor x = ones({1000});
  const memory::Log log = recorded(1, 1, [&] { EXPECT_EQ(to(x, another_gpu()).to_vector<float>()[0], 1.0f); });
  std::uint64_t bytes = 0;
  for (const DeviceWork& w : log.device_work)
    if (w.kind == DeviceWork::Kind::on_device) bytes += w.bytes;
  EXPECT_EQ(bytes, 4000u);
}

TEST_F(CudaDeviceTimes, OfARunningStepAreInTheLogSoFar) {
  Training training;
  const memory::Recording recording(dir_ / "run.memlog", "so far", {.device_times_every = 1});
  const memory::Step step(gpu);
  for (int i = 0; i < 20; ++i) training.step();
  const std::size_t so_far = memory::log_so_far().device_work.size();
  EXPECT_GT(so_far, 100u);
  EXPECT_EQ(memory::log_so_far().device_work.size(), so_far) << "it waited for all that was launched";
}

TEST_F(CudaDeviceTimes, AreInTheFileSoonWithoutALaterStep) {
  Training training;
  const memory::Recording recording(dir_ / "run.memlog", "soon", {.device_times_every = 1});
  {
    const memory::Step step(gpu);
    training.step();
  }
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto arrived = [&] { return !memory::read_log(recording.path()).device_work.empty(); };
  while (!arrived() && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(arrived());
}

TEST_F(CudaDeviceTimes, AreInTheLogSoFar) {
  Training training;
  const memory::Recording recording(dir_ / "run.memlog", "so far", {.device_times_every = 1});
  {
    const memory::Step step(gpu);
    training.step();
  }
  EXPECT_GT(memory::log_so_far().device_work.size(), 5u);
}

}  // namespace
}  // namespace bytetape::test
