// Device times of recordings, with a timer of the tests' own in place of a GPU's.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/upstream.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/step.h"
#include "bytetape/core/memory/times.h"
#include "tests/support/expect.h"
#include "tests/support/fake_timer.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class DeviceTimes : public testing::Test {
 protected:
  std::string path() const { return dir_ / "run.memlog"; }

  void kernel(const char* op, const char* name, std::uint64_t ns) {
    const OpScope scope(intern(op));
    gpu_.timer.launch(name, ns);
  }
  void step(std::uint32_t number = 0) {
    const Step step(Device::cpu(), number);
    {
      const ModuleScope module(intern("net"));
      kernel("matmul", "gemm", 1000);
      kernel("relu", "max", 500);
    }
    const PhaseScope phase(Phase::backward);
    kernel("matmul", "gemm", 2000);
  }
  static std::vector<std::uint32_t> steps_of(const Log& log) {
    std::vector<std::uint32_t> steps;
    for (const DeviceWork& w : log.device_work) steps.push_back(w.step);
    return steps;
  }

  test::TemporaryDir dir_;
  test::FakeGpuTimes gpu_;
};

TEST_F(DeviceTimes, AreOfEveryKthStepWithOpAndModule) {
  memory::allocator(Device::cpu()).reset_log();
  Recording recording(path(), "timed", {.device_times_every = 3});
  for (int i = 0; i < 7; ++i) step();
  kernel("outside", "of steps", 7);
  recording.finish();
  const Log log = read_log(path());
  EXPECT_TRUE(log.complete);
  EXPECT_THAT(steps_of(log), ElementsAre(3, 3, 3, 6, 6, 6));
  const DeviceWork& relu = log.device_work.at(1);
  EXPECT_EQ(log.names[relu.name], "max");
  EXPECT_EQ(log.names[relu.op], "relu");
  EXPECT_EQ(log.names[relu.module], "net");
  EXPECT_EQ(relu.phase, Phase::forward);
  EXPECT_EQ(relu.time(), 500u);
  EXPECT_EQ(log.device_work.at(2).phase, Phase::backward);
  EXPECT_EQ(log.devices.at(relu.device).name, "cpu");
  EXPECT_THAT(gpu_.timer.calls, ElementsAre("start", "begin", "end", "begin", "end", "flush", "stop"));
}

TEST_F(DeviceTimes, AddUpToTheSpanOfTheStep) {
  Recording recording(path(), {}, {.device_times_every = 1});
  for (int i = 0; i < 3; ++i) step();
  recording.finish();
  const std::vector<StepTime> steps = step_times(read_log(path()));
  ASSERT_EQ(steps.size(), 3u);
  for (const StepTime& s : steps) {
    ASSERT_TRUE(s.device.has_value());
    std::uint64_t device = 0, host = 0;
    for (const OpTime& r : s.rows) device += r.device_time, host += r.time;
    EXPECT_EQ(host, s.time());
    EXPECT_EQ(device, s.device->busy);
    EXPECT_EQ(device, 3500u);
    EXPECT_EQ(s.device->busy + s.device->idle(), s.device->span());
  }
}

TEST_F(DeviceTimes, AreLeftOutByDefault) {
  Recording recording(path());
  step();
  recording.finish();
  EXPECT_TRUE(read_log(path()).device_work.empty());
  EXPECT_TRUE(gpu_.timer.calls.empty());
  EXPECT_FALSE(step_times(read_log(path())).at(0).device.has_value());
}

TEST_F(DeviceTimes, AreInASecondRecordingToo) {
  for (int i = 0; i < 2; ++i) {
    Recording recording(path(), {}, {.device_times_every = 1});
    step();
    recording.finish();
    EXPECT_EQ(read_log(path()).device_work.size(), 3u);
  }
}

TEST_F(DeviceTimes, ArriveWithFlushAndInTheLogSoFar) {
  Recording recording(path(), {}, {.device_times_every = 1});
  step();
  recording.flush();
  EXPECT_EQ(read_log(path()).device_work.size(), 3u);
  step();
  EXPECT_EQ(log_so_far().device_work.size(), 6u);
}

TEST_F(DeviceTimes, WithoutATimerStartNothing) {
  const auto record = [&] { const Recording recording(path(), {}, {.device_times_every = 1}); };
  gpu_.timer.obstacle = "no profiler here";
  EXPECT_THROWS_SAYING(record(), DeviceError, "no profiler here");
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_EQ(recording_path(), "");
  Backend none = backend(Device::cuda());
  none.device_timer = nullptr;
  register_backend(DeviceType::cuda, none);
  EXPECT_THROWS_SAYING(record(), DeviceError, "device times: the backend of cuda cannot time its work");
  register_backend(DeviceType::cuda, {});
  EXPECT_THROWS_SAYING(record(), DeviceError, "CUDA");
  const Recording without(path());
}

TEST_F(DeviceTimes, ThatFailLeaveTheEventsWhole) {
  Recording recording(path(), {}, {.device_times_every = 1});
  step();
  gpu_.timer.failure = "the profiler failed";
  EXPECT_THROWS_SAYING(recording.finish(), DeviceError, "the profiler failed");
  const Log log = read_log(path());
  EXPECT_TRUE(log.complete);
  EXPECT_EQ(log.device_work.size(), 3u);
}

TEST_F(DeviceTimes, AreOfTheStepOfTheirThread) {
  Recording recording(path(), {}, {.device_times_every = 2});
  auto untimed = std::make_unique<Step>(Device::cpu(), 1);
  std::unique_ptr<Step> timed;
  std::thread([&] {
    timed = std::make_unique<Step>(Device::cpu(), 2);
    kernel("relu", "of its own step", 10);
  }).join();
  kernel("relu", "of the first thread's step", 10);
  std::thread([&] { kernel("relu", "of the oldest step", 10); }).join();
  timed.reset();
  untimed.reset();
  recording.finish();
  const Log log = read_log(path());
  ASSERT_EQ(log.device_work.size(), 1u);
  EXPECT_EQ(log.names[log.device_work[0].name], "of its own step");
  EXPECT_EQ(log.device_work[0].step, 2u);
}

/// A GPU without a driver.
Allocator simulated_gpu(int index) {
  return {Device::cuda(index), std::make_unique<SimulatedUpstream>(), Allocator::Mode::caching, "", true};
}

std::string device_of_step(const Log& log, const DeviceWork& w) { return log.devices.at(w.step_device).name; }

TEST_F(DeviceTimes, OfEachDeviceAreOfItsOwnKthStep) {
  Allocator first = simulated_gpu(0), second = simulated_gpu(1);
  Recording recording(path(), {}, {.device_times_every = 2});
  for (std::uint32_t i = 1; i <= 4; ++i)
    for (Allocator* gpu : {&first, &second}) {
      gpu->begin_step(10 + i);
      kernel("relu", "max", 10);
      gpu->end_step();
    }
  recording.finish();
  const Log log = read_log(path());
  std::vector<std::string> steps;
  for (const DeviceWork& w : log.device_work) steps.push_back(device_of_step(log, w) + " " + std::to_string(w.step));
  EXPECT_THAT(steps, ElementsAre("cuda 12", "cuda:1 12", "cuda 14", "cuda:1 14"));
}

TEST_F(DeviceTimes, OfAGpusStepAreItsOwnWithinOneOfTheCpu) {
  Allocator gpu = simulated_gpu(0);
  Recording recording(path(), {}, {.device_times_every = 1});
  for (std::uint32_t i = 1; i <= 2; ++i) {
    const Step epoch(Device::cpu(), i);
    kernel("relu", "outer", 10);
    gpu.begin_step(20 + i);
    kernel("relu", "inner", 10);
    gpu.end_step();
  }
  gpu.begin_step(23);
  {
    const Step loading(Device::cpu(), 7);
    kernel("relu", "while the CPU loads", 10);
  }
  gpu.end_step();
  recording.finish();
  const Log log = read_log(path());
  std::vector<std::string> steps;
  for (const DeviceWork& w : log.device_work) steps.push_back(device_of_step(log, w) + " " + std::to_string(w.step));
  EXPECT_THAT(steps, ElementsAre("cpu 1", "cuda 21", "cpu 2", "cuda 22", "cuda 23"));
}

TEST_F(DeviceTimes, ArriveInTheFileSoonAfterTheirStep) {
  Recording recording(path(), {}, {.device_times_every = 1});
  step();
  const Step next(Device::cpu());  // no later step begins, and this one is timed too
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (read_log(path()).device_work.empty() && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(read_log(path()).device_work.size(), 3u);
}

TEST_F(DeviceTimes, OfAStepThatIsEndedElsewhereOrByTheNextOne) {
  const PhaseScope around(Phase::setup);  // restores the phase, which a step that ends elsewhere leaves
  Allocator& cpu = allocator(Device::cpu());
  Recording recording(path(), {}, {.device_times_every = 1});
  cpu.begin_step(1);
  cpu.begin_step(2);  // ends the first one
  kernel("relu", "second", 10);
  cpu.end_step();
  kernel("relu", "outside", 10);
  auto step = std::make_unique<Step>(Device::cpu(), 3);
  std::thread([&] { step.reset(); }).join();
  kernel("relu", "outside", 10);
  recording.finish();
  EXPECT_THAT(steps_of(read_log(path())), ElementsAre(2));
  EXPECT_EQ(std::count(gpu_.timer.calls.begin(), gpu_.timer.calls.end(), "end"),
            std::count(gpu_.timer.calls.begin(), gpu_.timer.calls.end(), "begin"));
}

}  // namespace
}  // namespace bytetape::memory
