#include "bytetape/core/memory/snapshot_of.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/scope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <utility>

#include "bytetape/core/memory/allocator/as_thread.h"
#include "bytetape/core/memory/ledger/thread_number.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/timeline.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

/// An allocator that a recording sees from its first event on.
class SnapshotsOfRecordings : public ::testing::Test {
 protected:
  void record(const std::function<void(Allocator&)>& program) {
    const test::TemporaryDir dir;
    Recording recording(dir / "run.memlog");
    Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(), Allocator::Mode::caching, "recorded");
    program(a);
    recording.finish();
    now_ = a.snapshot();
    free_all(a);
    log_ = read_log(dir / "run.memlog");
  }
  Block* allocate(Allocator& a, std::size_t bytes, Role role = Role::temporary) {
    return held_.emplace_back(a.allocate(bytes, role));
  }
  void free_all(Allocator& a) {
    for (Block* b : held_) a.deallocate(b);
    held_.clear();
  }

  Snapshot recorded() const { return snapshot_of(log_, log_.devices.back()); }

  Snapshot now_;
  Log log_;
  std::vector<Block*> held_;
};

std::string text(const Snapshot& s) {
  std::ostringstream out;
  write_timeline(s, out);
  return out.str();
}

TEST_F(SnapshotsOfRecordings, SayWhatTheAllocatorSays) {
  record([&](Allocator& a) {
    std::mt19937 random(7);
    const NameId names[] = {0, intern("net"), intern("net.a"), intern("net.b")};
    for (int i = 0; i < 4000; ++i) {
      const AsThread as(1000 + random() % 3);
      const ScopeGuard scope({names[random() % 4], names[random() % 4], static_cast<Phase>(random() % phase_count)});
      const auto role = static_cast<Role>(random() % role_count);
      const auto dice = random() % 100;
      Block* any = held_.empty() ? nullptr : held_[random() % held_.size()];
      if (dice < 4) {
        a.begin_step();
      } else if (dice < 7) {
        a.end_step();
      } else if (dice == 7) {
        a.empty_cache();
      } else if (dice == 8) {
        a.note_traffic(dice % 2 ? EventKind::to_host : EventKind::wait, random() % 5000);
      } else if (any && dice < 20) {
        a.retag(any, role, names[random() % 4]);
      } else if (any && dice < 25) {
        a.hold_saved(any);
        a.drop_saved(any, false);
      } else if (any && dice < 55) {
        std::erase(held_, any);
        a.deallocate(any);
      } else {
        allocate(a, random() % (dice < 90 ? 5000 : 5000000), role);
      }
    }
  });
  EXPECT_EQ(text(recorded()), text(now_));
}

TEST_F(SnapshotsOfRecordings, HaveAllThatTheLedgerHas) {
  record([&](Allocator& a) {
    const ScopeGuard scope({intern("net.a"), intern("relu"), Phase::forward});
    allocate(a, 4096);
    a.deallocate(held_.back());
    held_.pop_back();
    allocate(a, 1024, Role::input);
    a.note_traffic(EventKind::to_host, 7);
    a.note_traffic(EventKind::to_device, 5);
    a.set_limit(std::size_t{1} << 30);
  });
  DeviceLog& device = log_.devices.back();
  device.dropped = 3;
  device.outside = Outside{70, 30};
  const Snapshot s = recorded();
  EXPECT_EQ(s.name, "recorded");
  EXPECT_EQ(s.device, Device::cpu()) << "a name that is no device's";
  EXPECT_EQ(s.limit, std::size_t{1} << 30);
  EXPECT_EQ(s.capacity, now_.capacity);
  EXPECT_EQ(s.by_module, now_.by_module);
  EXPECT_EQ(s.by_op, now_.by_op);
  EXPECT_EQ(s.by_module_at_peak, now_.by_module_at_peak);
  EXPECT_EQ(s.by_op_at_peak, now_.by_op_at_peak);
  EXPECT_EQ(s.most_by_module, now_.most_by_module);
  EXPECT_EQ(s.most_by_op, now_.most_by_op);
  EXPECT_EQ(s.statistics.to_host.bytes, 7u);
  EXPECT_EQ(s.statistics.to_device.bytes, 5u);
  EXPECT_EQ(s.statistics.upstream_calls, 1u);
  EXPECT_EQ(s.events, now_.events);
  EXPECT_EQ(s.dropped, 3u);
  EXPECT_EQ(s.outside, (Outside{70, 30}));
  for (const Device d : {Device::cpu(), Device::meta(), Device::cuda(3), Device::meta(Device::cuda(2))}) {
    device.name = to_string(d);
    EXPECT_EQ(recorded().device, d);
  }
  device.name = "pinned:cuda:1";
  EXPECT_EQ(recorded().device, Device::cpu());
}

TEST_F(SnapshotsOfRecordings, HaveTheStepsOfSeveralThreads) {
  record([&](Allocator& a) {
    OpenStep first;
    {
      const AsThread as(901);
      first = a.begin_sole_step(5);
      allocate(a, 512);
    }
    {
      const AsThread as(902);
      a.begin_step(5);  // of the same number
      allocate(a, 1024);
    }
    {
      const AsThread as(903);  // without one: the oldest counts
      allocate(a, 2048);
      a.end_step(first);
    }
    const AsThread as(902);
    allocate(a, 4096);
    a.end_step();
  });
  const Snapshot s = recorded();
  EXPECT_EQ(text(s), text(now_));
  ASSERT_EQ(s.steps.size(), 2u);
  EXPECT_EQ(s.steps[0].phases[0].rose, 2560u);
  EXPECT_EQ(s.steps[1].phases[0].rose, 5120u);
}

TEST_F(SnapshotsOfRecordings, EndTheThreadsOwnStepOfEqualNumbers) {
  record([&](Allocator& a) {
    for (const std::uint64_t thread : {901, 902}) {
      const AsThread as(thread);
      a.begin_sole_step(5);
      allocate(a, 512 * (thread - 900));
    }
    {
      const AsThread as(902);  // which began last
      a.end_step();
    }
    const AsThread as(901);
    allocate(a, 4096);
    a.end_step();
  });
  const Snapshot s = recorded();
  EXPECT_EQ(text(s), text(now_));
  ASSERT_EQ(s.steps.size(), 2u);
  EXPECT_EQ(s.steps[0].phases[0].rose, 1024u);
  EXPECT_EQ(s.steps[1].phases[0].rose, 4608u);
}

TEST_F(SnapshotsOfRecordings, OpenTheStepThatTheRecordingBeganIn) {
  const test::TemporaryDir dir;
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(), Allocator::Mode::caching, "recorded");
  a.begin_step(7);
  allocate(a, 512, Role::parameter);
  Recording recording(dir / "run.memlog");
  allocate(a, 1024);
  a.end_step();
  recording.finish();
  free_all(a);
  log_ = read_log(dir / "run.memlog");
  for (const DeviceLog& d : log_.devices) {
    if (d.name != "recorded") continue;
    const Snapshot s = snapshot_of(log_, d);
    EXPECT_EQ(s.statistics.allocated.current, 1536u);
    ASSERT_EQ(s.steps.size(), 2u);
    EXPECT_EQ(s.steps[0].phases[0].rose, 512u) << "found before";
    EXPECT_EQ(s.steps[1].step, 7u);
    EXPECT_EQ(s.steps[1].phases[0].rose, 1024u);
  }
}

TEST_F(SnapshotsOfRecordings, OpenEachStepThatTheRecordingBeganIn) {
  const test::TemporaryDir dir;
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(), Allocator::Mode::caching, "recorded");
  const std::pair<std::uint64_t, std::uint32_t> steps[] = {{901, 5}, {902, 7}};  // thread and number
  for (const auto& [thread, number] : steps) {
    const AsThread as(thread);
    a.begin_sole_step(number);
  }
  Recording recording(dir / "run.memlog");
  for (const auto& [thread, number] : steps) {
    const AsThread as(thread);
    allocate(a, 512 * number);
  }
  for (const auto& [thread, number] : steps) {
    const AsThread as(thread);
    a.end_step();
  }
  recording.finish();
  free_all(a);
  log_ = read_log(dir / "run.memlog");
  const auto its = std::ranges::find(log_.devices, "recorded", &DeviceLog::name);
  ASSERT_NE(its, log_.devices.end());
  std::map<std::uint32_t, std::size_t> rose;
  for (const StepSummary& s : snapshot_of(log_, *its).steps) rose[s.step] += s.phases[0].rose;
  EXPECT_EQ(rose, (std::map<std::uint32_t, std::size_t>{{5, 5 * 512}, {7, 7 * 512}}));
}

TEST_F(SnapshotsOfRecordings, LeaveTheThreadAsItWas) {
  const ScopeIds before = ambient.scope;
  const std::uint64_t thread = thread_number();
  record([&](Allocator& a) {
    const AsThread as(904);
    const PhaseScope phase(Phase::optimizer);
    allocate(a, 512);
  });
  recorded();
  EXPECT_EQ(ambient.scope.phase, before.phase);
  EXPECT_EQ(thread_number(), thread);
}

}  // namespace
}  // namespace bytetape::memory
