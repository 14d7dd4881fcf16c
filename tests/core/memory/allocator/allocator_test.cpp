#include "bytetape/core/memory/allocator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <thread>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/holders.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/replay.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

class AllocatorTest : public ::testing::Test {
 protected:
  Block* take(std::size_t bytes, Role role = Role::temporary) { return allocator.allocate(bytes, role); }
  std::size_t reserved() const { return allocator.statistics().reserved.current; }
  Allocator allocator{Device::meta(), std::make_unique<SimulatedUpstream>()};
};

// ---- limits

TEST_F(AllocatorTest, NeverReservesMoreThanTheLimit) {
  allocator.set_limit(5 * MiB);
  Block* a = take(MiB / 2);  // a small segment: 2 MiB
  Block* b = take(3 * MiB);  // all that the limit leaves
  EXPECT_EQ(reserved(), 5 * MiB);
  EXPECT_THROW(take(2 * MiB), OutOfMemory);
  Block* c = take(MiB);  // still fits the small segment
  EXPECT_EQ(reserved(), 5 * MiB);
  for (Block* x : {a, b, c}) allocator.deallocate(x);
}

TEST_F(AllocatorTest, GivesTheCacheBackBeforeItGivesUp) {
  allocator.set_limit(20 * MiB);
  allocator.deallocate(take(12 * MiB));
  EXPECT_EQ(reserved(), 12 * MiB);
  Block* b = take(16 * MiB);
  EXPECT_EQ(reserved(), 16 * MiB);
  allocator.deallocate(b);
}

/// A device that an earlier kernel has broken.
class BrokenUpstream final : public Upstream {
 public:
  void* allocate(std::size_t) noexcept override { return nullptr; }
  void deallocate(void*, std::size_t) noexcept override {}
  void check_failure() override { fail<DeviceError>("the device is gone"); }
  std::size_t capacity() const override { return 100 * MiB; }
};

TEST(BrokenAllocator, SaysWhatItsUpstreamFailedOf) {
  Allocator a(Device::meta(), std::make_unique<BrokenUpstream>());
  for (int again = 0; again < 2; ++again) EXPECT_THROW(a.allocate(MiB, Role::temporary), DeviceError);
  EXPECT_EQ(a.snapshot().events.size(), 0u) << "no memory was wanting";
}

TEST_F(AllocatorTest, ALimitBelowWhatIsReservedReleasesWhatIsUnused) {
  Block* kept = take(3 * MiB);
  allocator.deallocate(take(40 * MiB));
  EXPECT_EQ(reserved(), 60 * MiB);
  allocator.set_limit(10 * MiB);
  EXPECT_EQ(reserved(), 20 * MiB) << "what is in use stays";
  EXPECT_THROW(take(18 * MiB), OutOfMemory);
  Block* cached = take(15 * MiB);  // what is reserved may still be used
  EXPECT_EQ(cached->segment, kept->segment);
  allocator.deallocate(cached);
  allocator.deallocate(kept);
  allocator.empty_cache();
  EXPECT_EQ(reserved(), 0u);
  allocator.deallocate(take(10 * MiB));
  EXPECT_THROW(take(10 * MiB + 1), OutOfMemory);
}

TEST_F(AllocatorTest, TheDefaultLimitIsTheUpstreams) {
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(30 * MiB));
  EXPECT_EQ(a.snapshot().limit, 30 * MiB);
  EXPECT_EQ(a.snapshot().capacity, 30 * MiB);
}

TEST_F(AllocatorTest, EmptyCacheReturnsUnusedSegments) {
  Block* small = take(KiB);
  Block* large = take(30 * MiB);
  allocator.deallocate(large);
  EXPECT_EQ(reserved(), 32 * MiB);
  allocator.empty_cache();
  EXPECT_EQ(reserved(), 2 * MiB);
  const Event last = allocator.snapshot().events.back();
  EXPECT_EQ(last.kind, EventKind::segment_free);
  EXPECT_EQ(last.bytes, 30 * MiB);
  allocator.deallocate(small);
}

// ---- streams

TEST(AllocatorStreams, HaveACacheEachOnAGpuAndShareOneOnTheCpu) {
  for (const Device device : {Device::cpu(), Device::meta(), Device::cuda(), Device::meta(Device::cuda())}) {
    Allocator a(device, std::make_unique<SimulatedUpstream>());
    const ScopeGuard back{ambient.scope};
    const auto take_on = [&](StreamId stream) {
      ambient.scope.stream = stream;
      return a.allocate(3 * MiB, Role::temporary);
    };
    Block* first = take_on(0);
    const void* const place = first->data;
    a.deallocate(first);
    for (const StreamId stream : {StreamId{1}, StreamId{0}}) {
      Block* const b = take_on(stream);
      EXPECT_EQ(b->data == place, stream == 0 || device.type == DeviceType::cpu) << to_string(device);
      a.deallocate(b);
    }
  }
}

TEST_F(AllocatorTest, ReplacesUnusedSegmentsByOne) {
  Block* const a = take(12 * MiB);
  allocator.deallocate(take(14 * MiB));
  allocator.deallocate(a);
  allocator.deallocate(take(25 * MiB));
  EXPECT_EQ(reserved(), 26 * MiB);
}

TEST_F(AllocatorTest, ServesNoSizeThatRoundingUpWouldOverflow) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {(std::size_t{1} << 62) + 1, most - 511, most - 510, most}) {
    EXPECT_THROW(take(bytes), OutOfMemory) << bytes;
    allocator.deallocate(take(MiB / 2));
    allocator.deallocate(take(3 * MiB));
    EXPECT_THROW(take(bytes), OutOfMemory) << bytes << ", beside a cache";
  }
}

// ---- modes

TEST_F(AllocatorTest, WithoutTheCacheEveryBlockIsReturnedAtOnce) {
  allocator.set_mode(Allocator::Mode::direct);
  Block* a = take(700);
  Block* b = take(3 * MiB);
  EXPECT_EQ(reserved(), KiB + 3 * MiB);
  EXPECT_NE(a->segment, b->segment);
  allocator.deallocate(a);
  EXPECT_EQ(reserved(), 3 * MiB);
  allocator.deallocate(b);
  EXPECT_EQ(reserved(), 0u);
  EXPECT_EQ(allocator.statistics().upstream_calls, 2u);
}

TEST_F(AllocatorTest, TheModeChangesOnlyWhileNothingIsHeld) {
  Block* b = take(KiB);
  EXPECT_THROW(allocator.set_mode(Allocator::Mode::direct), ValueError);
  allocator.deallocate(b);
  allocator.set_mode(Allocator::Mode::direct);
  EXPECT_EQ(reserved(), 0u);
  allocator.deallocate(take(KiB));
  allocator.set_mode(Allocator::Mode::caching);
  allocator.deallocate(take(KiB));
  EXPECT_EQ(reserved(), 2 * MiB);
}

TEST_F(AllocatorTest, KnowsASaverUntilItDropsTheBlock) {
  Block* b = take(KiB);
  const int first = 0, second = 0;
  allocator.hold_saved(b, &first);
  allocator.hold_saved(b, &second);
  allocator.drop_saved(b, false, &first);
  EXPECT_EQ(b->saver, &second);
  allocator.drop_saved(b, false, &second);
  EXPECT_EQ(b->saver, nullptr);
  allocator.deallocate(b);
}

TEST_F(AllocatorTest, ReturnsEverySegmentInTheEnd) {
  struct Counting final : Upstream {
    explicit Counting(std::size_t& bytes) : bytes(bytes) {}
    void* allocate(std::size_t n) noexcept override {
      bytes += n;
      return inner.allocate(n);
    }
    void deallocate(void* data, std::size_t n) noexcept override {
      bytes -= n;
      inner.deallocate(data, n);
    }
    std::size_t capacity() const override { return inner.capacity(); }
    HostUpstream inner;
    std::size_t& bytes;
  };
  std::size_t bytes = 0;
  {
    Allocator a(Device::cpu(), std::make_unique<Counting>(bytes));
    Block* x = a.allocate(5 * MiB, Role::input);
    std::memset(x->data, 1, x->size);
    EXPECT_EQ(bytes, a.statistics().reserved.current);
    a.deallocate(x);
    a.deallocate(a.allocate(100, Role::input));
    EXPECT_EQ(bytes, 22 * MiB);
  }
  EXPECT_EQ(bytes, 0u);
}

// ---- against a plain model, at random

TEST_F(AllocatorTest, BooksAgreeWithAPlainListOfBlocks) {
  for (unsigned seed : {1u, 2u, 3u}) {
    Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(256 * MiB));
    std::mt19937 random(seed);
    std::vector<Block*> live;
    std::size_t peak = 0, refused = 0;
    for (int i = 0; i < 5000; ++i) {
      const auto dice = random() % 100;
      if (dice < 45 && !live.empty()) {
        const std::size_t at = random() % live.size();
        a.deallocate(live[at]);
        live[at] = live.back();
        live.pop_back();
      } else if (dice < 50 && !live.empty()) {
        a.retag(live[random() % live.size()], static_cast<Role>(random() % role_count));
      } else if (dice == 50) {
        a.empty_cache();
      } else if (dice == 51) {
        a.set_limit((64 + random() % 192) * MiB);
      } else {
        try {
          live.push_back(
              a.allocate(1 + random() % (dice < 90 ? 100 * KiB : 20 * MiB), static_cast<Role>(random() % 7)));
        } catch (const OutOfMemory&) { ++refused; }
      }
      RoleBytes roles{};
      std::size_t requested = 0;
      for (const Block* b : live) {
        roles[static_cast<std::size_t>(b->role)] += b->size;
        requested += b->requested;
      }
      peak = std::max(peak, total(roles));
      const Statistics s = a.statistics();
      for (std::size_t r = 0; r < role_count; ++r) ASSERT_EQ(s.by_role[r].current, roles[r]);
      ASSERT_EQ(s.allocated.current, total(roles));
      ASSERT_EQ(s.requested.current, requested);
      ASSERT_EQ(s.allocated.peak, peak);
      ASSERT_LE(s.reserved.current, 256 * MiB);
    }
    EXPECT_GT(refused, 0u) << "the program is meant to hit the limit";
    for (Block* b : live) a.deallocate(b);
    a.empty_cache();
    EXPECT_EQ(a.statistics().allocated.current, 0u);
    EXPECT_EQ(a.statistics().reserved.current, 0u);
  }
}

// ---- threads

TEST(AllocatorThreads, BooksHoldUnderTraffic) {
  Allocator a(Device::cpu(), std::make_unique<HostUpstream>());
  a.set_limit(512 * MiB);
  constexpr int threads = 4;
  std::vector<Block*> handed_over(threads);  // freed by another thread than the one that took it
  const auto traffic = [&](int id) {
    const std::string name = "worker" + std::to_string(id);
    const ScopeGuard scope({intern(name), intern("op" + name), Phase::data});
    std::mt19937 random(static_cast<unsigned>(id));
    std::vector<Block*> live;
    for (int i = 0; i < 3000; ++i) {
      const auto dice = random() % 100;
      if (dice < 40 && !live.empty()) {
        ASSERT_EQ(*static_cast<int*>(live.back()->data), id);
        a.deallocate(live.back());
        live.pop_back();
      } else if (dice < 50 && !live.empty()) {
        a.retag(live.back(), static_cast<Role>(random() % role_count));
        a.hold_saved(live.back());
        a.drop_saved(live.back(), false);
      } else if (dice == 50) {
        a.empty_cache();
      } else if (dice == 51) {
        const Statistics s = a.snapshot().statistics;
        ASSERT_EQ(total(s.at_peak), s.allocated.peak);
      } else if (dice == 52) {
        a.begin_step();
      } else if (dice == 53) {
        a.end_step();
      } else {
        live.push_back(a.allocate(4 + random() % (dice < 95 ? 20 * KiB : 3 * MiB), Role::temporary));
        *static_cast<int*>(live.back()->data) = id;
      }
    }
    handed_over[static_cast<std::size_t>(id)] = a.allocate(KiB, Role::input);
    for (Block* b : live) a.deallocate(b);
  };
  std::vector<std::thread> pool;
  for (int id = 0; id < threads; ++id) pool.emplace_back(traffic, id);
  for (std::thread& t : pool) t.join();
  EXPECT_EQ(a.statistics().allocated.current, threads * KiB);
  for (Block* b : handed_over) a.deallocate(b);
  const Snapshot s = a.snapshot();
  EXPECT_EQ(s.statistics.allocated.current, 0u);
  ASSERT_EQ(s.dropped, 0u);
  Replay replay;
  for (const Event& e : s.events) {
    replay.apply(e);
    ASSERT_EQ(total(replay.by_role()), replay.allocated());
  }
  EXPECT_EQ(replay.allocated(), 0u);
  EXPECT_EQ(replay.reserved(), s.statistics.reserved.current);
}

}  // namespace
}  // namespace bytetape::memory
