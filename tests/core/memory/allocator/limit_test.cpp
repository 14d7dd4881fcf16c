// The limit is hard, can be used to its last 512 bytes, and what a shortage says of it holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

class Limit : public ::testing::TestWithParam<Allocator::Mode> {
 protected:
  bool take(std::size_t bytes) {
    shortage.reset();
    try {
      live.push_back(allocator.allocate(bytes, Role::temporary));
    } catch (const OutOfMemory& e) { shortage = e.shortage(); }
    return !shortage;
  }
  void free_one(std::size_t at) {
    allocator.deallocate(live[at]);
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
  }
  bool would_serve(std::size_t bytes) {
    try {
      allocator.deallocate(allocator.allocate(bytes, Role::temporary));
    } catch (const OutOfMemory&) { return false; }
    return true;
  }
  /// Takes pieces of at most `most` bytes, as large as fit, until none does.
  void fill(std::size_t most) {
    while (take(most) || (shortage->fits() > 0 && take(std::min(most, shortage->fits())))) {}
  }
  std::size_t allocated() const { return allocator.statistics().allocated.current; }
  void TearDown() override {
    for (Block* b : live) allocator.deallocate(b);
  }

  Allocator allocator{Device::meta(), std::make_unique<SimulatedUpstream>(), GetParam()};
  std::vector<Block*> live;
  std::optional<Shortage> shortage;
};

TEST_P(Limit, LeavesRoomForASmallRequestBesideALargeOne) {
  allocator.set_limit(20 * MiB);
  ASSERT_TRUE(take(9 * MiB));
  EXPECT_TRUE(take(KiB));
  EXPECT_EQ(allocated(), 9 * MiB + KiB);
  fill(4 * KiB);
  EXPECT_EQ(allocated(), 20 * MiB);
}

TEST_P(Limit, IsUsedToItsLastUnitByMixedSizesInAnyOrder) {
  std::vector<std::size_t> sizes{
      512,      513,           7 * KiB,     300 * KiB, MiB,    MiB + 512, 3 * MiB, 9 * MiB + 3 * KiB,
      11 * MiB, 2 * MiB - 512, MiB / 2 + 1, 100,       4 * MiB};
  std::mt19937 random(5);
  for (const std::size_t limit : {20 * MiB, 25 * MiB + 512, 40 * MiB + 1000, 3 * MiB, std::size_t{1536}})
    for (int order = 0; order < 20; ++order) {
      std::shuffle(sizes.begin(), sizes.end(), random);
      allocator.set_limit(limit);
      for (std::size_t bytes : sizes) take(bytes);
      for (std::size_t i = 0; i < live.size(); i += 3) free_one(i);
      fill(order % 2 ? 200 * KiB : 64 * MiB);
      ASSERT_EQ(allocated(), limit / rounding * rounding) << "limit " << limit << ", order " << order;
      ASSERT_LE(allocator.statistics().reserved.current, limit);
      while (!live.empty()) free_one(live.size() - 1);
      allocator.empty_cache();
      ASSERT_EQ(allocator.statistics().reserved.current, 0u);
    }
}

TEST_P(Limit, ReturnsAnUnusedLargeSegmentRatherThanServeASmallRequestFromIt) {
  allocator.set_limit(20 * MiB);
  ASSERT_TRUE(take(20 * MiB));
  free_one(0);
  ASSERT_TRUE(take(KiB));
  EXPECT_LE(allocator.statistics().reserved.current, 2 * MiB);
  EXPECT_TRUE(take(18 * MiB));
}

TEST_P(Limit, SmallBlocksAmongLargeOnesMergeBack) {
  allocator.set_limit(20 * MiB);
  ASSERT_TRUE(take(9 * MiB));
  while (take(100 * KiB)) {}
  while (live.size() > 1) free_one(live.size() / 2);
  EXPECT_TRUE(take(11 * MiB));
  EXPECT_EQ(allocated(), 20 * MiB);
}

/// Sizes from 0 to past the limit, small ones often.
std::size_t some_size(std::mt19937& random) {
  const auto dice = random() % 10;
  if (dice < 3) return random() % (4 * KiB);
  if (dice < 6) return random() % (2 * MiB);
  return random() % (dice < 9 ? 6 * MiB : 40 * MiB);
}

TEST_P(Limit, WhatAShortageSaysIsSo) {
  int shortages = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const std::size_t limit = MiB + random() % (30 * MiB);
    allocator.set_limit(limit);
    for (int i = 0; i < 200; ++i) {
      if (!live.empty() && random() % 5 < 2) {
        free_one(random() % live.size());
        continue;
      }
      const std::size_t bytes = some_size(random);
      if (take(bytes)) continue;
      ++shortages;
      const Shortage s = *shortage;
      const std::string which = "seed " + std::to_string(seed) + ", event " + std::to_string(i);
      ASSERT_FALSE(s.refused()) << which;
      ASSERT_GT(s.missing(), 0u) << which;
      ASSERT_LE(s.missing(), s.needed()) << which;
      ASSERT_LT(s.fits(), s.needed()) << which;
      ASSERT_LE(s.unusable, s.cached()) << which;
      ASSERT_EQ(s.fragmented(), s.needed() <= s.cached() + s.unreserved) << which;
      ASSERT_TRUE(s.needed() > rounding || allocated() == limit / rounding * rounding) << which;
      ASSERT_TRUE(s.fits() == 0 || would_serve(s.fits())) << which;
      ASSERT_FALSE(would_serve(s.fits() + rounding)) << which;
    }
    while (!live.empty()) free_one(live.size() - 1);
  }
  EXPECT_GT(shortages, 300);
}

INSTANTIATE_TEST_SUITE_P(All, Limit, ::testing::Values(Allocator::Mode::caching, Allocator::Mode::direct),
                         [](const auto& info) {
                           return info.param == Allocator::Mode::caching ? "Caching" : "Direct";
                         });

}  // namespace
}  // namespace bytetape::memory
