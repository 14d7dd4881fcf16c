#pragma once
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "bytetape/core/memory/allocator/policy.h"

namespace bytetape::test {

inline constexpr std::size_t no_budget_limit = std::numeric_limits<std::size_t>::max();

/// What a policy told its observer: the segments that it holds.
struct Segments {
  std::map<std::uint32_t, std::size_t> held;
  std::size_t taken = 0, given = 0;  // so far, the latter back
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto& [id, size] : held) sum += size;
    return sum;
  }
  memory::SegmentObserver observer() {
    return [this](const memory::Block& s, bool acquired) {
      if (acquired) {
        ++taken;
        ASSERT_TRUE(held.emplace(s.segment, s.size).second) << "segment " << s.segment << " taken twice";
      } else {
        ASSERT_EQ(held[s.segment], s.size) << "segment " << s.segment << " returned in another size";
        held.erase(s.segment);
        ++given;
      }
    };
  }
};

}  // namespace bytetape::test
