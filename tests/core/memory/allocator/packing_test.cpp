#include "bytetape/core/memory/allocator/packing.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "bytetape/core/memory/allocator.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

TEST(Packing, LeavesTheRestInOnePiece) {
  EXPECT_EQ(max_fit_if_compacted({}, 20 * MiB), 20 * MiB);
  EXPECT_EQ(max_fit_if_compacted({4 * MiB, 4 * MiB, 4 * MiB, 4 * MiB, 4 * MiB}, 40 * MiB), 20 * MiB);
  EXPECT_EQ(max_fit_if_compacted({40 * MiB}, 40 * MiB), 0u);
  EXPECT_EQ(max_fit_if_compacted({40 * MiB, 1}, 40 * MiB), 0u) << "they do not even fit themselves";
}

TEST(Packing, SmallBlocksKeepTheirSegmentsFromLargeRequests) {
  EXPECT_EQ(max_fit_if_compacted({KiB}, 2 * MiB), MiB);
  EXPECT_EQ(max_fit_if_compacted({KiB}, 4 * MiB), 2 * MiB);
}

/// An allocator that was asked for these sizes in that order serves a request of the room, and not one unit more.
TEST(Packing, IsWhatAnAllocatorThenServes) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::size_t> sizes;
    for (int i = 0; i < 12; ++i) sizes.push_back(1 + random() % (random() % 2 ? 8 * MiB : 900 * KiB));
    const std::size_t budget = (60 + random() % 60) * MiB;
    const std::size_t room = max_fit_if_compacted(sizes, budget);
    ASSERT_GT(room, 0u);
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>());
    a.set_limit(budget);
    std::vector<Block*> live;
    for (const std::size_t size : sizes) live.push_back(a.allocate(size, Role::temporary));
    EXPECT_THROW(live.push_back(a.allocate(room + 1, Role::temporary)), OutOfMemory);
    live.push_back(a.allocate(room, Role::temporary));
    for (Block* b : live) a.deallocate(b);
  }
}

}  // namespace
}  // namespace bytetape::memory
