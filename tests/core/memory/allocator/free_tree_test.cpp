#include "bytetape/core/memory/allocator/free_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "bytetape/core/memory/allocator/policy.h"

namespace bytetape::memory {
namespace {

TEST(FreeTree, IsAnOrderedSet) {
  struct Before {
    bool operator()(const Block* a, const Block* b) const {
      return std::tuple(a->size, a->segment, a->offset) < std::tuple(b->size, b->segment, b->offset);
    }
  };
  std::mt19937 random(1);
  std::vector<Block> blocks(300);
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    blocks[i].size = 1 + random() % 40;
    blocks[i].segment = random() % 3;
    blocks[i].offset = i;
    blocks[i].rank = random() % 50;  // some are equal
  }
  FreeTree tree;
  std::set<Block*, Before> set;
  EXPECT_EQ(tree.smallest(), nullptr);
  EXPECT_EQ(tree.largest(), nullptr);
  for (int i = 0; i < 5000; ++i) {
    Block& b = blocks[random() % blocks.size()];
    if (random() % 4 == 0) {
      const std::size_t size = random() % 45;
      const auto fit = std::find_if(set.begin(), set.end(), [&](const Block* x) { return x->size >= size; });
      Block* expected = fit == set.end() ? nullptr : *fit;
      ASSERT_EQ(tree.take_best_fit(size), expected);
      if (expected) set.erase(fit);
    } else if (set.erase(&b)) {
      tree.remove(b);
    } else {
      set.insert(&b);
      tree.insert(b);
    }
    for (const Block* x : set)
      for (const Block* below : {x->smaller, x->larger}) ASSERT_TRUE(!below || below->rank <= x->rank);
    ASSERT_EQ(tree.empty(), set.empty());
    const auto after = set.upper_bound(&b);
    ASSERT_EQ(tree.next(b), after == set.end() ? nullptr : *after);
    ASSERT_EQ(tree.smallest(), set.empty() ? nullptr : *set.begin());
    ASSERT_EQ(tree.largest(), set.empty() ? nullptr : *set.rbegin());
  }
}

std::size_t depth(const Block* b) { return b ? 1 + std::max(depth(b->smaller), depth(b->larger)) : 0; }

TEST(FreeTree, StaysShallowInWhateverOrderBlocksAreFreed) {
  for (const char* order : {"as taken", "last first", "shuffled"}) {
    SimulatedUpstream upstream;
    CachingPolicy policy(upstream, [](const Block&, bool) {});
    std::vector<Block*> kept, freed;
    for (int i = 0; i < 20000; ++i) (i % 2 ? kept : freed).push_back(policy.allocate(rounding, SIZE_MAX));
    if (order == std::string("last first")) std::reverse(freed.begin(), freed.end());
    if (order == std::string("shuffled")) std::shuffle(freed.begin(), freed.end(), std::mt19937(1));
    for (Block* b : freed) policy.deallocate(b);
    std::size_t deepest = 0;
    for (const Block* b : freed) deepest = std::max(deepest, depth(b));
    EXPECT_LT(deepest, 60u) << order;  // 10,000 blocks at random: some 30
    for (Block* b : kept) policy.deallocate(b);
  }
}

}  // namespace
}  // namespace bytetape::memory
