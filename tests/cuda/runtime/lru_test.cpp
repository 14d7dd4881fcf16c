// Needs no GPU.
#include "bytetape/cuda/runtime/lru.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/random.h"

namespace bytetape::test {
namespace {

// Against a list that is searched.
TEST(Lru, DropsWhatWasUsedLongestAgo) {
  std::mt19937_64 generator = generator_for("lru");
  cuda::Lru<int, std::unique_ptr<int>, std::hash<int>> cache;
  std::vector<int> used;  // keys, the last one used at the end
  for (int i = 0; i < 5000; ++i) {
    const int key = static_cast<int>(generator() % 12);
    const auto known = std::find(used.begin(), used.end(), key);
    std::unique_ptr<int>* found = cache.find(key);
    ASSERT_EQ(found != nullptr, known != used.end());
    if (found) {
      EXPECT_EQ(**found, key);
      used.erase(known);
    } else {
      if (cache.size() == 7) {
        ASSERT_EQ(*cache.drop_last(), used.front());
        used.erase(used.begin());
      }
      EXPECT_EQ(*cache.add(key, std::make_unique<int>(key)), key);
    }
    used.push_back(key);
    ASSERT_EQ(cache.size(), used.size());
  }
}

}  // namespace
}  // namespace bytetape::test
