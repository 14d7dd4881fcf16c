#include "bytetape/core/memory/allocator/policy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <tuple>

#include "tests/support/segments.h"

namespace bytetape::memory {
namespace {

using test::no_budget_limit;
using test::Segments;

constexpr std::size_t MiB = std::size_t{1} << 20;

// ---- what any policy over any upstream must do

enum class Kind { caching, direct };
enum class Source { host, simulated };

class AnyPolicy : public ::testing::TestWithParam<std::tuple<Kind, Source>> {
 protected:
  void SetUp() override {
    if (std::get<Source>(GetParam()) == Source::host)
      upstream = std::make_unique<HostUpstream>();
    else
      upstream = std::make_unique<SimulatedUpstream>();
    if (std::get<Kind>(GetParam()) == Kind::caching)
      policy = std::make_unique<CachingPolicy>(*upstream, segments.observer());
    else
      policy = std::make_unique<DirectPolicy>(*upstream, segments.observer());
  }
  bool has_data() const { return std::get<Source>(GetParam()) == Source::host; }

  std::unique_ptr<Upstream> upstream;
  Segments segments;
  std::unique_ptr<Policy> policy;
};

TEST_P(AnyPolicy, ServesAtLeastWhatWasAskedInsideASegment) {
  for (std::size_t size :
       {rounding, 7 * rounding, 1 * MiB, 1 * MiB + rounding, 9 * MiB, 11 * MiB, 33 * MiB + rounding}) {
    Block* b = policy->allocate(size, no_budget_limit);
    ASSERT_NE(b, nullptr);
    EXPECT_GE(b->size, size);
    EXPECT_EQ(b->size % rounding, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b->data) % rounding, 0u);
    EXPECT_LE(b->offset + b->size, segments.held.at(b->segment));
    EXPECT_TRUE(b->in_use);
    if (has_data()) std::memset(b->data, 0x5a, b->size);
    policy->deallocate(b);
  }
}

TEST_P(AnyPolicy, GivesEverythingBack) {
  std::vector<Block*> blocks;
  for (std::size_t size : {rounding, 3 * MiB, 12 * MiB, 2 * rounding})
    blocks.push_back(policy->allocate(size, no_budget_limit));
  for (Block* b : blocks) policy->deallocate(b);
  policy->release_cached();
  EXPECT_TRUE(segments.held.empty());
  EXPECT_EQ(policy->largest_free(), 0u);
}

TEST_P(AnyPolicy, ListsItsSegments) {
  const auto expect_all_listed = [&](const char* when) {
    std::map<std::uint32_t, std::size_t> listed;
    policy->each_segment([&](const Block& first) {
      EXPECT_EQ(first.offset, 0u) << when;
      for (const Block* b = &first; b; b = b->after) listed[first.segment] += b->size;
    });
    EXPECT_EQ(listed, segments.held) << when;
    EXPECT_EQ(policy->holds_segments(), !listed.empty()) << when;
  };
  expect_all_listed("at first");
  std::vector<Block*> blocks;
  for (std::size_t size : {rounding, 3 * MiB, 12 * MiB, 14 * MiB, 2 * rounding})
    blocks.push_back(policy->allocate(size, no_budget_limit));
  expect_all_listed("all are used");
  for (std::size_t i : {1u, 2u, 3u}) policy->deallocate(blocks[i]);
  expect_all_listed("some are free");
  policy->release_cached();
  expect_all_listed("those are returned");
  blocks[1] = policy->allocate(9 * MiB, no_budget_limit);
  EXPECT_EQ(policy->allocate(12 * MiB, 0), nullptr);
  expect_all_listed("a request failed");
  for (std::size_t i : {0u, 1u, 4u}) policy->deallocate(blocks[i]);
  policy->release_cached();
  expect_all_listed("all are returned");
}

TEST_P(AnyPolicy, StaysWithinItsBudget) {
  std::vector<Block*> blocks;
  const std::size_t limit = 3 * MiB + 5 * rounding + 100;
  for (std::size_t size : {MiB / 2, rounding, 2 * MiB, rounding, MiB / 4}) {
    if (Block* b = policy->allocate(size, limit - segments.bytes())) blocks.push_back(b);
    EXPECT_LE(segments.bytes(), limit);
  }
  EXPECT_GE(blocks.size(), 3u);
  EXPECT_EQ(policy->allocate(4 * MiB, limit - segments.bytes()), nullptr);
  for (Block* b : blocks) policy->deallocate(b);
}

TEST_P(AnyPolicy, UsesALimitToTheLastUnit) {
  for (std::size_t size : {rounding, MiB, 5 * MiB, 15 * MiB, 21 * MiB}) {
    EXPECT_EQ(policy->allocate(size, size - 1), nullptr);
    Block* b = policy->allocate(size, size);
    ASSERT_NE(b, nullptr) << size;
    EXPECT_EQ(segments.bytes(), size);
    policy->deallocate(b);
    policy->release_cached();
  }
}

TEST_P(AnyPolicy, SameProgramSamePlaces) {
  const auto places = [&](Policy& p) {
    std::mt19937 random(11);
    std::vector<Block*> live;
    std::vector<std::tuple<std::uint32_t, std::size_t, std::size_t>> list;
    for (int i = 0; i < 400; ++i) {
      if (!live.empty() && random() % 2) {
        const std::size_t at = random() % live.size();
        p.deallocate(live[at]);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        Block* b = p.allocate(rounding * (1 + random() % (random() % 3 ? 40 : 9000)), no_budget_limit);
        live.push_back(b);
        list.emplace_back(b->segment, b->offset, b->size);
      }
    }
    for (Block* b : live) p.deallocate(b);
    return list;
  };
  SimulatedUpstream elsewhere;  // other addresses
  elsewhere.allocate(123 * MiB);
  Segments others;
  std::unique_ptr<Policy> twin;
  if (std::get<Kind>(GetParam()) == Kind::caching)
    twin = std::make_unique<CachingPolicy>(elsewhere, others.observer());
  else
    twin = std::make_unique<DirectPolicy>(elsewhere, others.observer());
  EXPECT_EQ(places(*policy), places(*twin));
}

TEST_P(AnyPolicy, BlocksNeverOverlap) {
  std::mt19937 random(3);
  std::map<std::pair<std::uint32_t, std::size_t>, Block*> live;  // by place
  for (int i = 0; i < 3000; ++i) {
    if (live.size() > 60 || (!live.empty() && random() % 2)) {
      const auto it = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      if (has_data()) {
        const auto* bytes = static_cast<const unsigned char*>(it->second->data);
        ASSERT_EQ(bytes[0], it->second->segment % 251) << "somebody else wrote here";
        ASSERT_EQ(bytes[it->second->size - 1], it->second->segment % 251);
      }
      policy->deallocate(it->second);
      live.erase(it);
      continue;
    }
    Block* b = policy->allocate(rounding * (1 + random() % (random() % 4 ? 64 : 5000)), no_budget_limit);
    ASSERT_NE(b, nullptr);
    const auto [it, fresh] = live.emplace(std::pair{b->segment, b->offset}, b);
    ASSERT_TRUE(fresh);
    if (it != live.begin()) {
      const Block* left = std::prev(it)->second;
      ASSERT_TRUE(left->segment != b->segment || left->offset + left->size <= b->offset);
    }
    if (const auto right = std::next(it); right != live.end()) {
      ASSERT_TRUE(right->second->segment != b->segment || b->offset + b->size <= right->second->offset);
    }
    if (has_data()) {
      auto* bytes = static_cast<unsigned char*>(b->data);
      bytes[0] = bytes[b->size - 1] = static_cast<unsigned char>(b->segment % 251);
    }
  }
  for (auto& [place, b] : live) policy->deallocate(b);
}

std::string policy_name(const ::testing::TestParamInfo<std::tuple<Kind, Source>>& info) {
  return std::string(std::get<Kind>(info.param) == Kind::caching ? "Caching" : "Direct") +
         (std::get<Source>(info.param) == Source::host ? "OverHost" : "OverSimulated");
}
INSTANTIATE_TEST_SUITE_P(All, AnyPolicy,
                         ::testing::Combine(::testing::Values(Kind::caching, Kind::direct),
                                            ::testing::Values(Source::host, Source::simulated)),
                         policy_name);

// ---- the caching policy

class Caching : public ::testing::Test {
 protected:
  Block* take(std::size_t size) { return policy.allocate(size, no_budget_limit); }
  SimulatedUpstream upstream;
  Segments segments;
  CachingPolicy policy{upstream, segments.observer()};
};

TEST_F(Caching, SegmentsComeInClasses) {
  const std::pair<std::size_t, std::size_t> classes[] = {
      {rounding, 2 * MiB},  {MiB, 2 * MiB},       {MiB + rounding, 20 * MiB},     {10 * MiB - rounding, 20 * MiB},
      {10 * MiB, 10 * MiB}, {11 * MiB, 12 * MiB}, {64 * MiB + rounding, 66 * MiB}};
  for (const auto& [size, segment] : classes) {
    Block* b = take(size);
    EXPECT_EQ(segments.bytes(), segment) << size;
    policy.deallocate(b);
    policy.release_cached();
  }
}

TEST_F(Caching, SmallRequestsShareASegment) {
  Block* a = take(rounding);
  Block* b = take(3 * rounding);
  Block* c = take(MiB);
  EXPECT_EQ(segments.taken, 1u);
  EXPECT_EQ(a->offset, 0u);
  EXPECT_EQ(b->offset, rounding);
  EXPECT_EQ(c->offset, 4 * rounding);
  for (Block* block : {b, a, c}) policy.deallocate(block);
}

TEST_F(Caching, LargeBlocksKeepRemaindersThatAreOnlyFitForSmallRequests) {
  Block* a = take(19 * MiB + rounding);  // own segment of 20 MiB: 1 MiB - 512 B would stay
  EXPECT_EQ(a->size, 20 * MiB);
  policy.deallocate(a);
  a = take(19 * MiB);  // 1 MiB would, which serves no large request either
  EXPECT_EQ(a->size, 20 * MiB);
  policy.deallocate(a);
  a = take(19 * MiB - rounding);
  EXPECT_EQ(a->size, 19 * MiB - rounding);
  policy.deallocate(a);
  a = take(18 * MiB);
  EXPECT_EQ(a->size, 18 * MiB);
  EXPECT_EQ(policy.largest_free(), 2 * MiB);
  policy.deallocate(a);
}

TEST_F(Caching, TakesTheBestFitNotTheFirst) {
  std::vector<Block*> blocks;
  for (std::size_t units : {9, 1, 4, 1, 6, 1}) blocks.push_back(take(units * rounding));
  Block *nine = blocks[0], *four = blocks[2], *six = blocks[4];
  const std::size_t at_four = four->offset, at_six = six->offset, at_nine = nine->offset;
  for (Block* b : {nine, six, four}) policy.deallocate(b);
  EXPECT_EQ(take(4 * rounding)->offset, at_four);
  EXPECT_EQ(take(5 * rounding)->offset, at_six);
  EXPECT_EQ(take(5 * rounding)->offset, at_nine);
}

TEST_F(Caching, EqualCandidatesGoByPlace) {
  std::vector<Block*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(take(4 * rounding));
  for (int i : {7, 1, 5, 3}) policy.deallocate(blocks[static_cast<std::size_t>(i)]);
  for (std::size_t i : {1, 3, 5, 7}) EXPECT_EQ(take(4 * rounding)->offset, i * 4 * rounding);
}

TEST_F(Caching, FreedNeighboursMergeInAnyOrder) {
  for (const auto& order : {std::array{0, 1, 2}, std::array{2, 1, 0}, std::array{0, 2, 1}, std::array{1, 0, 2}}) {
    const std::array blocks{take(100 * rounding), take(200 * rounding), take(300 * rounding)};
    for (int i : order) policy.deallocate(blocks[static_cast<std::size_t>(i)]);
    EXPECT_EQ(policy.largest_free(), MiB);  // of a free segment of 2 MiB: what one small request may take
    Block* all = take(MiB);
    EXPECT_EQ(all->offset, 0u);
    policy.deallocate(all);
    policy.release_cached();
    EXPECT_EQ(segments.bytes(), 0u);
  }
}

TEST_F(Caching, OnlyUnusedSegmentsGoBack) {
  Block* small = take(rounding);
  Block* large = take(12 * MiB);
  policy.deallocate(large);
  policy.release_cached();
  EXPECT_EQ(segments.bytes(), 2 * MiB);
  policy.deallocate(small);
  policy.release_cached();
  EXPECT_EQ(segments.bytes(), 0u);
}

TEST_F(Caching, CountsSegmentsFromZeroOnceAllAreReturned) {
  Block* a = take(12 * MiB);
  Block* b = take(14 * MiB);
  EXPECT_EQ(b->segment, 1u);
  policy.deallocate(a);
  policy.release_cached();
  EXPECT_EQ(take(12 * MiB)->segment, 2u);
  policy.deallocate(b);
  policy.release_cached();
  EXPECT_EQ(take(12 * MiB)->segment, 3u) << "one was in use all the time";
  Segments seen;
  CachingPolicy fresh(upstream, seen.observer());
  fresh.deallocate(fresh.allocate(12 * MiB, no_budget_limit));
  fresh.release_cached();
  Block* again = fresh.allocate(12 * MiB, no_budget_limit);
  EXPECT_EQ(again->segment, 0u);
  fresh.deallocate(again);
}

TEST_F(Caching, SmallRequestsTakeFromLargeSegmentsOnlyWhereNoneIsUnused) {
  Block* large = take(2 * MiB);
  Block* b = policy.allocate(MiB, 0);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->segment, large->segment);
  policy.deallocate(b);
  Block* tight = policy.allocate(MiB / 2, MiB / 2);
  policy.deallocate(tight);
  EXPECT_EQ(policy.unusable_for(MiB), 0u);
  EXPECT_EQ(policy.unusable_for(MiB + rounding), MiB / 2);
  EXPECT_EQ(policy.allocate(MiB, 0), nullptr) << "returned, the half may become a whole";
  policy.deallocate(large);
}

TEST_F(Caching, KeepsBlocksOfAnySize) {
  policy.deallocate(take(std::size_t{1} << 61));
  policy.deallocate(take(2 * MiB));  // a small piece of it
  EXPECT_EQ(segments.taken, 1u);
  policy.release_cached();
  for (int power : {30, 40, 50, 58, 61}) {
    const std::size_t size = std::size_t{1} << power;
    Block* b = take(size);
    const std::size_t taken = segments.taken;
    policy.deallocate(b);
    EXPECT_EQ(policy.largest_free(), size);
    policy.deallocate(take(size));
    EXPECT_EQ(segments.taken, taken);
  }
}

TEST_F(Caching, FallsBackToExactlyWhatIsAskedWhereTheUpstreamIsShort) {
  SimulatedUpstream tight(5 * MiB);
  Segments seen;
  CachingPolicy small(tight, seen.observer());
  Block* b = small.allocate(4 * MiB, no_budget_limit);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(seen.bytes(), 4 * MiB);
  EXPECT_EQ(small.allocate(2 * MiB, no_budget_limit), nullptr);
  small.deallocate(b);
}

TEST_F(Caching, SmallRequestsShareASegmentOfLessThanTheUsualBytesToo) {
  SimulatedUpstream tight(MiB);
  Segments seen;
  CachingPolicy small(tight, seen.observer());
  for (const std::size_t size : {MiB, rounding, MiB}) {
    Block* b = small.allocate(size, no_budget_limit);
    ASSERT_NE(b, nullptr) << size;
    EXPECT_TRUE(b->small);
    EXPECT_EQ(seen.bytes(), MiB);
    small.deallocate(b);
  }
  EXPECT_EQ(seen.taken, 1u);
}

}  // namespace
}  // namespace bytetape::memory
