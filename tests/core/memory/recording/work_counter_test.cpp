// The step for which a recording counts work, and times it.
#include "bytetape/core/memory/recording/work_counter.h"

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/upstream.h"
#include "bytetape/core/memory/ledger/host_wait.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/step.h"
#include "bytetape/core/memory/times.h"
#include "bytetape/core/memory/work.h"
#include "tests/support/fake_timer.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

void count(std::uint64_t bytes, Device device = Device::cpu()) { count_work(device, {.bytes = bytes}); }

Log recorded(const std::function<void()>& work, std::uint32_t device_times_every = 0) {
  const test::TemporaryDir dir;
  Recording recording(dir / "run.memlog", "the test", {.device_times_every = device_times_every});
  work();
  recording.finish();
  return read_log(dir / "run.memlog");
}

/// "device step: bytes" of each counted step.
std::vector<std::string> counted(const Log& log) {
  std::vector<std::string> all;
  for (const CountedStep& s : log.counted_steps) {
    std::uint64_t bytes = 0;
    for (const WorkCount& w : log.work_counts)
      if (w.table == s.table) bytes += w.bytes;
    all.push_back(log.devices[s.step_device].name + " " + std::to_string(s.step) + ": " + std::to_string(bytes));
  }
  return all;
}

std::unique_ptr<Allocator> make_allocator(Device device, bool is_listed) {
  return std::make_unique<Allocator>(device, std::make_unique<SimulatedUpstream>(), Allocator::Mode::caching, "",
                                     is_listed);
}

TEST(WorkCounter, CountsAStepThatTheNextOneEnds) {
  const Log log = recorded([] {
    Allocator& cpu = allocator(Device::cpu());
    for (const std::uint32_t number : {7u, 8u, 7u}) {
      cpu.begin_step(number);
      count(number);
    }
    cpu.end_step();
  });
  EXPECT_THAT(counted(log), ElementsAre("cpu 7: 7", "cpu 8: 8", "cpu 7: 7"));
  const std::vector<StepTime> steps = step_times(log);
  ASSERT_EQ(steps.size(), 3u);
  for (const StepTime& s : steps) EXPECT_TRUE(s.is_counted) << s.step;
}

TEST(WorkCounter, SeparatesStepsOfThreadsWithOneNumber) {
  const Log log = recorded([] {
    const Step step(Device::cpu(), 5);
    count(1);
    std::thread([] {
      const Step step(Device::cpu(), 5);
      count(20);
    }).join();
    count(300);
  });
  EXPECT_THAT(counted(log), ElementsAre("cpu 5: 20", "cpu 5: 301"));
  std::vector<std::uint64_t> bytes;
  for (const StepTime& s : step_times(log))
    for (const OpTime& r : s.rows)
      if (r.bytes) bytes.push_back(r.bytes);
  EXPECT_THAT(bytes, ElementsAre(301, 20)) << "in the order of their begins";
}

TEST(WorkCounter, ForgetsTheStepsOfADestroyedAllocator) {
  test::FakeGpuTimes gpu;
  const Log log = recorded(
      [&] {
        auto other = make_allocator(Device::cuda(3), true);
        other->begin_step(9);
        other.reset();
        const Step step(Device::cpu(), 4);
        count(6);
        gpu.timer.launch("gemm", 1000);
      },
      1);
  EXPECT_THAT(counted(log), ElementsAre("cpu 4: 6"));
  ASSERT_EQ(log.device_work.size(), 1u);
  EXPECT_EQ(log.device_work[0].step, 4u);
}

TEST(WorkCounter, IgnoresAllocatorsThatRecordingsDoNotSee) {
  const Log log = recorded([] {
    const auto own = make_allocator(Device::cpu(), false);
    own->begin_step(3);
    count(5);
    own->end_step();
    const Step step(Device::cpu(), 4);
    count(6);
  });
  EXPECT_THAT(counted(log), ElementsAre("cpu 4: 6"));
}

TEST(WorkCounter, PrefersNoMetaDeviceToTheCpu) {
  const auto meta = make_allocator(Device::meta(Device::cuda(3)), true);
  const Log log = recorded([&] {
    meta->begin_step(2);
    {
      const Step step(Device::cpu(), 4);
      count(6);
    }
    meta->end_step();
  });
  EXPECT_THAT(counted(log), ElementsAre("cpu 4: 6", "meta:cuda:3 2: 0"));
}

std::vector<std::uint64_t> bytes_of(const PredictedWork& work, Device device) {
  std::vector<std::uint64_t> bytes;
  for (const WorkCount& w : work.of(device, 1)) bytes.push_back(w.bytes);
  return bytes;
}

TEST(WorkCounter, LeavesOtherDevicesOutOfACapturedStep) {
  CapturedWork captured(Device::cuda());
  PredictedWork predicted;
  const PredictedWork::Scope counts(predicted);
  predicted.begin_step();
  {
    const CapturedWork::Scope scope(captured);
    count(10, Device::cpu());
    count(300, Device::cuda());
  }
  EXPECT_THAT(bytes_of(predicted, Device::cpu()), ElementsAre(10));
  EXPECT_THAT(bytes_of(predicted, Device::cuda()), ElementsAre());
  predicted.begin_step();
  captured.count_replay();
  EXPECT_THAT(bytes_of(predicted, Device::cpu()), ElementsAre());
  EXPECT_THAT(bytes_of(predicted, Device::cuda()), ElementsAre(300));
}

TEST(HostWait, IsARowOfItsOwn) {
  const Log log = recorded([] {
    const Step step(Device::cpu(), 1);
    const OpScope op(intern("item"));
    for (int i = 0; i < 2; ++i) const HostWait wait;
  });
  const std::vector<StepTime> steps = step_times(log);
  ASSERT_EQ(steps.size(), 1u);
  std::map<std::string, std::uint64_t> calls;
  for (const OpTime& r : steps[0].rows)
    if (r.op) calls[log.names[r.op]] = r.calls;
  EXPECT_THAT(calls, UnorderedElementsAre(testing::Pair("item", 1), testing::Pair(host_wait_name, 2)));
}

}  // namespace
}  // namespace bytetape::memory
