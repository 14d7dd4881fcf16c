// Segments that lie unused make way for a larger one: when, and that loops come to rest all the same.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/policies.h"
#include "tests/support/events.h"
#include "tests/support/segments.h"

namespace bytetape::memory {
namespace {

using test::no_budget_limit;
using test::Segments;

constexpr std::size_t MiB = std::size_t{1} << 20;

/// Segments of 12 and 14 MiB that nothing is used of.
void leave_unused(CachingPolicy& p) {
  Block* const a = p.allocate(12 * MiB, no_budget_limit);
  p.deallocate(p.allocate(14 * MiB, no_budget_limit));
  p.deallocate(a);
}

class UnusedSegments : public ::testing::Test {
 protected:
  UnusedSegments() { leave_unused(policy); }
  Block* take(std::size_t size, std::size_t budget = no_budget_limit) { return policy.allocate(size, budget); }
  void visit(std::size_t size, std::size_t budget = no_budget_limit) {
    Block* const b = take(size, budget);
    ASSERT_NE(b, nullptr);
    policy.deallocate(b);
  }

  SimulatedUpstream upstream;
  Segments segments;
  CachingPolicy policy{upstream, segments.observer()};
};

TEST_F(UnusedSegments, BecomeOneWhereTheyHaveTheBytes) {
  Block* const b = take(25 * MiB);
  EXPECT_EQ(segments.held.size(), 1u);
  EXPECT_EQ(segments.bytes(), 26 * MiB);
  EXPECT_EQ(b->offset, 0u);
  policy.deallocate(b);
  EXPECT_EQ(policy.largest_free(), 26 * MiB);
}

TEST_F(UnusedSegments, BecomeALargerOneWhereTheyHaveHalf) {
  visit(52 * MiB);
  EXPECT_EQ(segments.held.size(), 1u);
  EXPECT_EQ(segments.bytes(), 52 * MiB);
}

TEST(UnusedSegmentsOfATightSystem, BecomeOneOfExactlyWhatIsAsked) {
  SimulatedUpstream tight(27 * MiB);
  Segments segments;
  CachingPolicy policy(tight, segments.observer());
  leave_unused(policy);
  Block* const b = policy.allocate(27 * MiB, no_budget_limit);  // of 28 MiB, if there were so many
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(segments.bytes(), 27 * MiB);
  policy.deallocate(b);
}

TEST_F(UnusedSegments, StayWhereTheyHaveLess) {
  visit(52 * MiB + rounding);
  EXPECT_EQ(segments.held.size(), 3u);
  EXPECT_EQ(segments.bytes(), (12 + 14 + 54) * MiB);
}

TEST_F(UnusedSegments, StayForSmallRequests) {
  visit(MiB);
  EXPECT_EQ(segments.bytes(), (12 + 14 + 2) * MiB);
}

TEST_F(UnusedSegments, AreNotThoseInUseInPart) {
  Block* const part = take(2 * MiB);  // of the 12
  visit(30 * MiB);                    // 14 have not the half of it
  EXPECT_EQ(segments.bytes(), (12 + 14 + 30) * MiB);
  visit(40 * MiB);
  EXPECT_EQ(segments.bytes(), (12 + 44) * MiB);
  EXPECT_EQ(segments.held.size(), 2u);
  policy.deallocate(part);
}

TEST_F(UnusedSegments, LeaveSmallOnesAlone) {
  visit(rounding);
  visit(26 * MiB);
  EXPECT_EQ(segments.bytes(), (2 + 26) * MiB);
}

// What a small request holds on to is bounded: in use in part, a segment cannot go back.
TEST_F(UnusedSegments, StayWhereTheyAreManyTimesWhatIsTaken) {
  const auto with = [&](int of_12, int of_10) {
    std::vector<Block*> blocks;
    for (int i = 0; i < of_12 + of_10; ++i) blocks.push_back(take((i < of_12 ? 12 : 10) * MiB));
    for (Block* b : blocks) policy.deallocate(b);
    visit(13 * MiB);
    const std::size_t bytes = segments.bytes();
    policy.release_cached();
    return bytes;
  };
  policy.release_cached();
  EXPECT_EQ(with(18, 0), 18 * 12 * MiB);
  EXPECT_EQ(with(17, 2), (17 * 12 + 2 * 10) * MiB);  // 16 times 14 MiB
  EXPECT_EQ(with(19, 0), (19 * 12 + 14) * MiB);      // more
}

TEST_F(UnusedSegments, StayWhereALimitHasNoRoomForTheirs) {
  EXPECT_EQ(take(48 * MiB, 22 * MiB - 1), nullptr);
  EXPECT_EQ(segments.bytes(), (12 + 14) * MiB);
  visit(48 * MiB, 22 * MiB);  // those 26 go back before
  EXPECT_EQ(segments.bytes(), 48 * MiB);
}

TEST_F(UnusedSegments, TakeNoRoomWhereTheyHaveTheBytes) {
  visit(25 * MiB, 0);
  EXPECT_EQ(segments.bytes(), 26 * MiB);
}

TEST_F(UnusedSegments, AreKeptWherePlacesMustLast) {
  Segments seen;
  CachingPolicy keeping(upstream, seen.observer(), std::make_shared<SegmentNumbers>(), Unused::kept);
  leave_unused(keeping);
  keeping.deallocate(keeping.allocate(25 * MiB, no_budget_limit));
  EXPECT_EQ(seen.bytes(), (12 + 14 + 26) * MiB);
}

/// Memory in pieces: it has none of more than 25 MiB.
struct Broken : SimulatedUpstream {
  void* allocate(std::size_t bytes) noexcept override {
    return bytes > 25 * MiB ? nullptr : SimulatedUpstream::allocate(bytes);
  }
};

TEST(UnusedSegmentsOfBrokenMemory, MakeWayForWhatThereIs) {
  for (const auto& [size, taken] :
       {std::pair{26 * MiB, std::size_t{0}}, {25 * MiB - rounding, 25 * MiB - rounding}, {15 * MiB, 16 * MiB}}) {
    Broken upstream;
    Segments seen;
    CachingPolicy policy(upstream, seen.observer());
    leave_unused(policy);
    Block* const b = policy.allocate(size, no_budget_limit);
    EXPECT_EQ(b != nullptr, taken > 0);
    EXPECT_EQ(seen.bytes(), taken);
    if (b) policy.deallocate(b);
  }
}

TEST(UnusedSegmentsOfBrokenMemory, AreRoomOfALimitOnceTheyWentBack) {
  Broken upstream;
  Segments seen;
  CachingPolicy policy(upstream, seen.observer());
  leave_unused(policy);
  Block* const b = policy.allocate(15 * MiB, 0);  // in 26 MiB, which there are not in one piece
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(seen.bytes(), 16 * MiB);
  policy.deallocate(b);
}

/// What a program asks for over and over: sizes up to 64 MiB, each with its places among 60 requests and frees.
class Loop {
 public:
  explicit Loop(unsigned seed) : random_(seed) {
    for (std::size_t& size : sizes_) size = rounding * (1 + random_() % (1u << (4 + random_() % 14)));
  }
  /// Once more; `take` and `give` do it.
  template <class Take, class Give>
  void run(const Take& take, const Give& give) const {
    std::mt19937 random = random_;
    std::vector<decltype(take(0))> live;
    for (int i = 0; i < 60; ++i) {
      if (live.size() > 8 || (!live.empty() && random() % 2)) {
        const auto at = live.begin() + static_cast<std::ptrdiff_t>(random() % live.size());
        give(*at);
        live.erase(at);
      } else {
        live.push_back(take(sizes_[random() % sizes_.size()]));
      }
    }
    for (const auto& held : live) give(held);
  }

 private:
  std::mt19937 random_;
  std::array<std::size_t, 5> sizes_;
};

// Why they do: whoever gives segments back holds more bytes then than before, or as many in fewer segments.
TEST(UnusedSegmentsOfLoops, ComeToRest) {
  int merges = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Loop loop(seed);
    SimulatedUpstream upstream;
    Segments seen;
    CachingPolicy policy(upstream, seen.observer());
    const auto take = [&](std::size_t size) {
      const auto before = std::pair(seen.bytes(), -static_cast<int>(seen.held.size()));
      const std::size_t given = seen.given;
      Block* const b = policy.allocate(size, no_budget_limit);
      if (seen.given == given) return b;
      ++merges;
      EXPECT_GT(std::pair(seen.bytes(), -static_cast<int>(seen.held.size())), before) << "seed " << seed;
      return b;
    };
    const auto give = [&](Block* b) { policy.deallocate(b); };
    for (int i = 0; i < 20; ++i) loop.run(take, give);
    const std::size_t taken = seen.taken;
    for (int i = 0; i < 20; ++i) loop.run(take, give);
    EXPECT_EQ(seen.taken, taken) << "seed " << seed;
  }
  EXPECT_GT(merges, 20);
}

// So what was predicted without a limit tells which one is enough.
TEST(UnusedSegmentsOfLoops, GoTheSameWayUnderALimitThatIsEnough) {
  const auto play = [](unsigned seed, std::size_t limit) {
    Allocator books(Device::meta(), std::make_unique<SimulatedUpstream>());
    books.set_limit(limit);
    const Loop loop(seed);
    for (int i = 0; i < 4; ++i)
      loop.run([&](std::size_t size) { return books.allocate(size, Role::temporary); },
               [&](Block* b) { books.deallocate(b); });
    return books.snapshot();
  };
  for (unsigned seed = 0; seed < 100; ++seed) {
    const Snapshot free = play(seed, no_budget_limit);
    const std::size_t peak = free.statistics.reserved.peak;
    for (const std::size_t limit : {peak, peak + 6 * MiB, 2 * peak})
      EXPECT_EQ(test::first_difference(play(seed, limit).events, free.events), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace bytetape::memory
