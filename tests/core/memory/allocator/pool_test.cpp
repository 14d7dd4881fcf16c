#include "bytetape/core/memory/allocator/pool.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace bytetape::memory {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

class Pools : public testing::TestWithParam<Allocator::Mode> {
 protected:
  Block* take(std::size_t bytes) { return allocator.allocate(bytes, Role::temporary); }
  Block* take(const Pool& pool, std::size_t bytes) {
    const PoolScope scope(pool);
    return take(bytes);
  }
  std::size_t reserved() const { return allocator.statistics().reserved.current; }
  std::size_t allocated() const { return allocator.statistics().allocated.current; }

  Allocator allocator{Device::meta(), std::make_unique<SimulatedUpstream>(), GetParam()};
};

TEST_P(Pools, ShareNoSegmentWithAnythingElse) {
  const Pool one(allocator), two(allocator);
  Block* const outside = take(KiB);
  Block* const first = take(one, KiB);
  Block* const second = take(two, KiB);
  EXPECT_NE(first->segment, outside->segment);
  EXPECT_NE(second->segment, outside->segment);
  EXPECT_NE(first->segment, second->segment);
  EXPECT_TRUE(one.owns(first));
  EXPECT_FALSE(one.owns(second));
  EXPECT_FALSE(one.owns(outside));
  for (Block* b : {outside, first, second}) allocator.deallocate(b);
  EXPECT_EQ(allocated(), 0u);
}

TEST_P(Pools, GiveTheirBlocksToNobodyElse) {
  const Pool pool(allocator);
  Block* const b = take(pool, 3 * MiB);
  const void* const place = b->data;
  const std::size_t held = reserved();
  allocator.deallocate(b);
  allocator.empty_cache();
  EXPECT_EQ(reserved(), held);  // what was recorded may still run there
  Block* const outside = take(3 * MiB);
  EXPECT_NE(outside->data, place);
  Block* const again = take(pool, 3 * MiB);
  EXPECT_EQ(again->data, place);
  for (Block* each : {outside, again}) allocator.deallocate(each);
}

TEST_P(Pools, KeepTheirSegmentsWhateverIsAsked) {
  const Pool pool(allocator);
  Block* const a = take(pool, 12 * MiB);
  Block* const b = take(pool, 14 * MiB);
  const void* const places[] = {a->data, b->data};
  for (Block* each : {a, b}) allocator.deallocate(each);
  allocator.deallocate(take(pool, 26 * MiB));  // of their sum
  EXPECT_EQ(reserved(), (12 + 14 + 26) * MiB);
  Block* const again[] = {take(pool, 12 * MiB), take(pool, 14 * MiB)};
  for (int i : {0, 1}) EXPECT_EQ(again[i]->data, places[i]);
  for (Block* each : again) allocator.deallocate(each);
}

TEST_P(Pools, HoldWhatTheyDoNotUse) {
  Pool pool(allocator);
  Block* const kept = take(pool, 700 * KiB);
  allocator.deallocate(take(pool, 5 * MiB));
  pool.hold_unused();
  EXPECT_EQ(allocated(), reserved());
  Block* const more = take(pool, KiB);  // of a new segment
  EXPECT_NE(more->segment, kept->segment);
  allocator.deallocate(more);
  allocator.deallocate(kept);
}

TEST_P(Pools, ReturnTheirSegmentsAtTheEnd) {
  Block *small = nullptr, *large = nullptr;
  {
    Pool pool(allocator);
    small = take(pool, KiB);
    large = take(pool, 30 * MiB);
    pool.hold_unused();
  }
  EXPECT_EQ(reserved(), 32 * MiB);  // both are still held
  allocator.deallocate(large);
  EXPECT_EQ(reserved(), 2 * MiB);
  allocator.deallocate(small);
  EXPECT_EQ(reserved(), 0u);
  Block* const next = take(KiB);
  EXPECT_EQ(next->segment, 0u);  // numbers are the allocator's, and all had gone back
  allocator.deallocate(next);
}

TEST_P(Pools, ReturnWhatIsFreeAsTheyAreClosed) {
  Block* kept = nullptr;
  {
    const Pool pool(allocator);
    Block* const freed = take(pool, 12 * MiB);
    kept = take(pool, 14 * MiB);
    allocator.deallocate(freed);
  }
  EXPECT_EQ(reserved(), 14 * MiB);
  allocator.deallocate(kept);
  EXPECT_EQ(reserved(), 0u);
}

TEST_P(Pools, ThatAreClosedReturnTheirSegmentsEachOnItsOwn) {
  std::vector<Block*> held;
  for (std::size_t mib : {12, 14, 16}) {
    const Pool pool(allocator);
    held.push_back(take(pool, mib * MiB));
    EXPECT_EQ(allocator.blocks().size(), held.size());
  }
  EXPECT_EQ(reserved(), (12 + 14 + 16) * MiB);
  allocator.deallocate(held[1]);
  EXPECT_EQ(reserved(), (12 + 16) * MiB);
  allocator.deallocate(held[2]);
  EXPECT_EQ(reserved(), 12 * MiB);
  EXPECT_EQ(allocator.blocks().size(), 1u);
  Block* const outside = take(KiB);
  allocator.deallocate(outside);
  EXPECT_GE(reserved(), 12 * MiB) << "the first is still in use";
  allocator.deallocate(held[0]);
  allocator.empty_cache();
  EXPECT_EQ(reserved(), 0u);
}

TEST_P(Pools, CountAgainstTheLimit) {
  allocator.set_limit(4 * MiB);
  const Pool pool(allocator);
  Block* const b = take(pool, 3 * MiB);
  EXPECT_THROW(take(2 * MiB), OutOfMemory);
  EXPECT_THROW(take(pool, 2 * MiB), OutOfMemory);
  allocator.deallocate(b);
  EXPECT_THROW(take(2 * MiB), OutOfMemory);  // the pool keeps its segment
  allocator.deallocate(take(pool, 2 * MiB));
}

INSTANTIATE_TEST_SUITE_P(Modes, Pools, testing::Values(Allocator::Mode::caching, Allocator::Mode::direct),
                         [](const auto& info) {
                           return info.param == Allocator::Mode::caching ? "caching" : "direct";
                         });

}  // namespace
}  // namespace bytetape::memory
