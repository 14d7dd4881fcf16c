#include "bytetape/core/memory/resimulate.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <tuple>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/allocator/policy.h"
#include "bytetape/core/memory/allocator/upstream.h"
#include "bytetape/core/memory/layout.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/replay.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

/// What happens to an allocator of its own under that limit, in that mode. Frees what the program leaves.
struct Recorded {
  Recorded(const std::function<void(Allocator&, std::vector<Block*>&)>& program,
           std::size_t limit = std::size_t{1} << 40, Allocator::Mode mode = Allocator::Mode::caching) {
    const test::TemporaryDir dir;
    Recording recording(dir / "run.memlog");
    {
      Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(), mode, "recorded");
      a.set_limit(limit);
      std::vector<Block*> held;
      program(a, held);
      recording.finish();
      statistics = a.statistics();
      for (Block* b : held) a.deallocate(b);
    }
    log = read_log(dir / "run.memlog");
  }
  const DeviceLog& device() const { return log.devices.back(); }

  Log log;
  Statistics statistics;
};

void churn(Allocator& a, std::vector<Block*>& held, unsigned seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < 3000; ++i) {
    if (!held.empty() && random() % 100 < 48) {
      const std::size_t at = random() % held.size();
      a.deallocate(held[at]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (!held.empty() && random() % 10 == 0) {
      a.hold_saved(held.back());
    } else {
      held.push_back(a.allocate(random() % (random() % 4 ? 20000 : 12 * MiB), Role::temporary));
    }
  }
}

auto cells(const Event& e) {
  return std::tuple(e.kind, e.segment, e.offset, e.bytes, e.requested, e.step, e.module, e.op, e.role, e.phase);
}

TEST(Resimulation, OfTheSamePolicyIsTheRecording) {
  for (const auto mode : {Allocator::Mode::caching, Allocator::Mode::direct}) {
    const Recorded r([](Allocator& a, auto& held) { churn(a, held, 3); }, std::size_t{1} << 40, mode);
    const Resimulated again = resimulate(r.device(), {.policy = policy_of(mode)});
    EXPECT_FALSE(again.failure);
    ASSERT_EQ(again.device.records.size(), r.device().records.size());
    for (std::size_t i = 0; i < r.device().records.size(); ++i)
      ASSERT_EQ(cells(again.device.records[i].event), cells(r.device().records[i].event)) << i;
  }
}

Watermark reserved(const DeviceLog& d) {
  Watermark w;
  for (const Record& r : d.records) {
    if (r.event.kind == EventKind::segment_alloc) w.add(r.event.bytes);
    if (r.event.kind == EventKind::segment_free) w.sub(r.event.bytes);
  }
  return w;
}

TEST(Resimulation, OfAnotherModeReservesWhatThatOneWould) {
  const auto program = [](Allocator& a, auto& held) { churn(a, held, 4); };
  const Recorded caching(program), direct(program, std::size_t{1} << 40, Allocator::Mode::direct);
  const Resimulated there = resimulate(caching.device(), {.policy = policy_of(Allocator::Mode::direct)});
  EXPECT_EQ(reserved(there.device).peak, direct.statistics.reserved.peak);
  const Resimulated back = resimulate(direct.device());
  EXPECT_EQ(reserved(back.device).peak, caching.statistics.reserved.peak);
}

TEST(Resimulation, UnderALimitFailsWhereTheProgramWould) {
  int failed = 0;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    const auto program = [&](Allocator& a, auto& held) { churn(a, held, seed); };
    const Recorded whole(program);
    const std::size_t limit = whole.statistics.allocated.peak + seed * MiB / 2 - 2 * MiB;
    std::size_t requested = 0;
    const Recorded limited(
        [&](Allocator& a, auto& held) {
          try {
            program(a, held);
          } catch (const OutOfMemory& e) { requested = e.shortage().needed(); }
        },
        limit);
    const Resimulated again = resimulate(whole.device(), {.limit = limit});
    ASSERT_EQ(again.failure.has_value(), requested != 0) << seed;
    if (!again.failure) continue;
    ++failed;
    EXPECT_EQ(again.failure->requested, requested);
    ASSERT_EQ(again.device.records.size(), limited.device().records.size()) << seed;
    for (std::size_t i = 0; i < again.device.records.size(); ++i)
      ASSERT_EQ(cells(again.device.records[i].event), cells(limited.device().records[i].event)) << i;
    EXPECT_LE(again.failure->reserved, limit);
    EXPECT_LT(again.failure->largest_free, requested);
  }
  EXPECT_GT(failed, 0);
}

TEST(Resimulation, TriesAgainWhatFailed) {
  const Recorded r(
      [](Allocator& a, auto& held) {
        held.push_back(a.allocate(3 * MiB, Role::temporary));
        EXPECT_THROW(a.allocate(30 * MiB, Role::temporary), OutOfMemory);
      },
      24 * MiB);
  const Resimulated more = resimulate(r.device(), {.limit = 64 * MiB});
  EXPECT_FALSE(more.failure);
  EXPECT_EQ(reserved(more.device).peak, 50 * MiB);
  const Resimulated same = resimulate(r.device(), {.limit = 24 * MiB});
  ASSERT_TRUE(same.failure);
  EXPECT_EQ(same.failure->requested, 30 * MiB);
  EXPECT_EQ(same.failure->allocated, 3 * MiB);
  EXPECT_EQ(same.failure->reserved, 20 * MiB);
}

TEST(Resimulation, GoesOnWhereRecordsAreMissing) {
  const Recorded r([](Allocator& a, auto& held) { churn(a, held, 5); });
  DeviceLog part = r.device();
  std::erase_if(part.records, [i = 0](const Record&) mutable { return ++i % 3 == 0; });
  EXPECT_FALSE(resimulate(part).failure);
}

// Where a block lies that is there already, the free of that one is missing.
TEST(Resimulation, FreesWhatAnotherBlockTookThePlaceOf) {
  DeviceLog d{.name = "recorded"};
  for (std::uint64_t i = 0; i < 5; ++i) {
    Record r{.time = i};
    r.event.kind = EventKind::alloc;
    r.event.bytes = r.event.requested = 12 * MiB;
    d.records.push_back(r);
  }
  const Resimulated again = resimulate(d, {.limit = 24 * MiB});
  EXPECT_FALSE(again.failure);
  EXPECT_EQ(reserved(again.device).peak, 24 * MiB) << "two at a time";
}

TEST(Layouts, SumToWhatIsReserved) {
  const Recorded r([](Allocator& a, auto& held) { churn(a, held, 6); });
  Layout layout;
  Replay replay;
  for (const Record& record : r.device().records) {
    layout.apply(record.event);
    replay.apply(record.event);
    const Usage u = layout.usage();
    ASSERT_EQ(u.reserved(), replay.reserved());
    ASSERT_EQ(u.requested, replay.requested());
    ASSERT_EQ(u.requested + u.rounding, replay.allocated());
  }
}

TEST(Layouts, TellUnusedFromStranded) {
  const Recorded r([](Allocator& a, auto& held) {
    Block* small = a.allocate(1000, Role::temporary);
    held.push_back(a.allocate(2 * MiB, Role::temporary));
    a.deallocate(small);
    a.begin_step(3);
    held.push_back(a.allocate(19 * MiB, Role::temporary));
  });
  std::vector<Event> events;
  for (const Record& record : r.device().records) events.push_back(record.event);
  const ReservedPeak peak = reserved_peak(events);
  EXPECT_EQ(peak.step, 3u);
  EXPECT_EQ(peak.usage.requested, 21 * MiB);
  EXPECT_EQ(peak.usage.unused, 2 * MiB) << "the small blocks' segment";
  EXPECT_EQ(peak.usage.rounding, MiB) << "what is too little to be cut off";
  EXPECT_EQ(peak.usage.stranded, 18 * MiB);
}

}  // namespace
}  // namespace bytetape::memory
