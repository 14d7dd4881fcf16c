#include "bytetape/core/memory/prediction/failed_requests.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/verdict.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/stats.h"
#include "bytetape/core/memory/step.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

using Bytes = std::size_t;
constexpr Bytes MiB = Bytes{1} << 20;

/// Records what `f` does under a limit, from an empty cache on. Returns the recording and the shortage that it threw.
struct Failed {
  Log log;
  Shortage thrown;
  const DeviceLog& device() const {
    return *std::find_if(log.devices.begin(), log.devices.end(), [](const auto& d) { return d.name == "cpu"; });
  }
};

Failed failed(Bytes limit, const std::function<void()>& f) {
  const test::TemporaryDir dir;
  empty_cache(Device::cpu());
  Allocator& allocator = memory::allocator(Device::cpu());
  const Bytes before = allocator.limit();
  Failed result;
  {
    Recording recording(dir / "run.memlog");
    allocator.set_limit(allocator.statistics().reserved.current + limit);
    try {
      f();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const OutOfMemory& e) { result.thrown = e.shortage(); }
    allocator.set_limit(before);
    recording.finish();
  }
  result.log = read_log(dir / "run.memlog");
  return result;
}

void expect_same(const Shortage& recorded, const Shortage& thrown) {
  EXPECT_EQ(recorded.requested, thrown.requested);
  EXPECT_EQ(recorded.limit, thrown.limit);
  EXPECT_EQ(recorded.unreserved, thrown.unreserved);
  EXPECT_EQ(recorded.largest_free, thrown.largest_free);
  EXPECT_EQ(recorded.unusable, thrown.unusable);
  EXPECT_EQ(recorded.missing(), thrown.missing());
  EXPECT_EQ(recorded.fits(), thrown.fits());
  EXPECT_EQ(recorded.step, thrown.step);
  EXPECT_EQ(recorded.max_fit_if_compacted, thrown.max_fit_if_compacted);
  EXPECT_EQ(verdict(recorded), verdict(thrown));
}

Tensor block(Bytes bytes) { return empty({static_cast<std::int64_t>(bytes)}, DType::u8); }

TEST(FailedRequests, HaveTheShortageOfTheException) {
  const Failed shortage = failed(40 * MiB, [&] {
    const Step step;
    const std::vector<Tensor> held{block(13 * MiB), block(14 * MiB), block(700), block(3 * MiB)};
    block(30 * MiB);
  });
  ASSERT_EQ(failed_requests(shortage.device()).size(), 1u);
  expect_same(failed_requests(shortage.device())[0].shortage, shortage.thrown);
  EXPECT_FALSE(shortage.thrown.fragmented());
}

TEST(FailedRequests, HaveTheFragmentationOfTheException) {
  if (memory::allocator(Device::cpu()).mode() == AllocationMode::direct) GTEST_SKIP() << "nothing is cached";
  const Failed pieces = failed(40 * MiB, [&] {
    std::vector<Tensor> held;
    for (int i = 0; i < 9; ++i) held.push_back(block(4 * MiB));
    for (int i = 1; i < 9; i += 2) held[i] = {};
    block(9 * MiB);
  });
  ASSERT_EQ(failed_requests(pieces.device()).size(), 1u);
  expect_same(failed_requests(pieces.device())[0].shortage, pieces.thrown);
  EXPECT_TRUE(pieces.thrown.fragmented()) << verdict(pieces.thrown);
}

TEST(FailedRequests, CountSmallPiecesAsTheExceptionDoes) {
  if (memory::allocator(Device::cpu()).mode() == AllocationMode::direct) GTEST_SKIP() << "nothing is cached";
  const Failed small = failed(2 * MiB, [&] {
    const Tensor held = block(700);
    block(16 * MiB);
  });
  expect_same(failed_requests(small.device()).at(0).shortage, small.thrown);
  EXPECT_EQ(small.thrown.fits(), MiB) << "of the rest of a segment of 2 MiB";
  const Failed shrunk = failed(2 * MiB, [&] {  // 1.5 MiB take a segment of 2 MiB
    const Tensor held = block(MiB + MiB / 2);
    block(16 * MiB);
  });
  expect_same(failed_requests(shrunk.device()).at(0).shortage, shrunk.thrown);
  EXPECT_EQ(shrunk.thrown.unusable, 0u);
}

TEST(FailedRequests, EndedTheRunIfNoStepFollowed) {
  const auto ended = [](const Failed& f) { return ended_out_of_memory(f.log, f.device()); };
  const auto fail_once = [](int goes_on) {
    return failed(8 * MiB, [&] {
      try {
        const Step step;
        empty({1 << 24}, DType::u8);
      } catch (const OutOfMemory&) {
        if (goes_on == 1) const Step next;
        if (goes_on == 2) empty({64});
        throw;
      }
    });
  };
  EXPECT_TRUE(ended(fail_once(0)));
  EXPECT_FALSE(ended(fail_once(1)));
  EXPECT_FALSE(ended(fail_once(2))) << "the program went on without a step";
  EXPECT_FALSE(ended_out_of_memory({}, DeviceLog{}));
}

Record record_of(EventKind kind, std::size_t bytes, std::uint64_t time, std::uint64_t offset = 0) {
  Record r{};
  r.event.kind = kind;
  r.event.bytes = r.event.requested = bytes;
  r.event.offset = offset;
  r.time = time;
  return r;
}

TEST(FailedRequests, TakeALargeFreePieceForThatOfAnotherStream) {
  const DeviceLog device{
      .name = "cuda:0",
      .capacity = 64 * MiB,
      .limit = 40 * MiB,
      .records = {record_of(EventKind::segment_alloc, 40 * MiB, 1), record_of(EventKind::alloc, 8 * MiB, 2),
                  record_of(EventKind::out_of_memory, 20 * MiB, 3)}};
  const Shortage s = failed_requests(device).at(0).shortage;
  EXPECT_EQ(s.elsewhere, 32 * MiB);
  EXPECT_EQ(s.missing(), 20 * MiB);
  EXPECT_EQ(s.fits(), 0u);
}

TEST(FailedRequests, DoNotEndARunWhoseStepsGoOnElsewhere) {
  const DeviceLog pinned{.name = "pinned:cuda", .records = {record_of(EventKind::out_of_memory, MiB, 5)}};
  Log log{.devices = {pinned, {.name = "cuda:0", .records = {record_of(EventKind::step_begin, 1, 4)}}}};
  EXPECT_TRUE(ended_out_of_memory(log, log.devices[0]));
  log.devices[1].records.push_back(record_of(EventKind::step_begin, 2, 6));
  EXPECT_FALSE(ended_out_of_memory(log, log.devices[0]));
}

TEST(FailedRequests, SurviveRecordsOfUnknownBlocks) {
  DeviceLog device{.name = "cpu", .limit = 4 * MiB};
  for (const EventKind kind : {EventKind::free, EventKind::alloc, EventKind::segment_free, EventKind::out_of_memory}) {
    Record r{};
    r.event.kind = kind;
    r.event.bytes = r.event.requested = MiB;
    r.event.segment = 7;
    device.records.push_back(r);
  }
  ASSERT_EQ(failed_requests(device).size(), 1u);
  EXPECT_EQ(failed_requests(device)[0].shortage.statistics.allocated.current, 0u);
}

}  // namespace
}  // namespace bytetape::memory
