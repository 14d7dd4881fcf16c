#include "bytetape/core/memory/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <sstream>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "tests/support/expect.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

class Diff : public ::testing::TestWithParam<Allocator::Mode> {
 protected:
  Block* take(std::size_t bytes, const char* module, const char* op, Role role) {
    const ScopeGuard scope({intern(module), intern(op)});
    return allocator.allocate(bytes, role);
  }
  static std::string text(const Difference& d) {
    std::ostringstream out;
    out << d;
    return out.str();
  }
  Allocator allocator{Device::meta(), std::make_unique<SimulatedUpstream>(), GetParam()};
};

TEST_P(Diff, IsThisTable) {
  std::vector<Block*> kept{take(2 * MiB, "net.fc1", "parameter 'weight' of Linear", Role::parameter)};
  Block* gone = take(100, "", "", Role::input);
  const Holdings before = mark(allocator);
  allocator.deallocate(gone);
  for (int i = 0; i < 9; ++i) kept.push_back(take(4 * MiB, "net.conv1", "relu", Role::saved));
  for (int i = 0; i < 9; ++i) kept.push_back(take(4, "", "cross_entropy", Role::temporary));
  EXPECT_EQ("\n" + text(diff(before, mark(allocator))), R"(
memory on meta: +36.0 MiB, from 2.00 MiB to 38.0 MiB
       bytes   blocks  role                module             op
   +36.0 MiB       +9  saved for backward  net.conv1          relu
   +4.50 KiB       +9  output/temporary    (outside modules)  cross_entropy
      -512 B       -1  input               (outside modules)  (outside ops)
)");
  EXPECT_EQ(text(diff(before, before)), "memory on meta: +0 B, from 2.00 MiB to 2.00 MiB\n");
  for (Block* b : kept) allocator.deallocate(b);
}

TEST_P(Diff, ColumnsAreAsWideAsTheirLongestName) {
  const Holdings before = mark(allocator);
  Block* const large = take(4 * MiB, "net.features.block1", "relu", Role::saved);
  Block* const small = take(MiB, "net", "parameter 'weight' of Linear", Role::input);
  EXPECT_EQ("\n" + text(diff(before, mark(allocator))), R"(
memory on meta: +5.00 MiB, from 0 B to 5.00 MiB
       bytes   blocks  role                module               op
   +4.00 MiB       +1  saved for backward  net.features.block1  relu
   +1.00 MiB       +1  input               net                  parameter 'weight' of Linear
)");
  for (Block* b : {large, small}) allocator.deallocate(b);
}

TEST_P(Diff, OrdersRowsOfAsManyBytesByName) {
  const Holdings before = mark(allocator);
  std::vector<Block*> kept;
  for (const char* module : {"net.b", "net.a"})
    for (const char* op : {"relu", "linear"})
      for (const Role role : {Role::saved, Role::parameter}) kept.push_back(take(4 * KiB, module, op, role));
  std::string names;
  for (const Holding& h : diff(before, mark(allocator)).rows)
    names += name_of(h.module) + " " + name_of(h.op) + " " + to_string(h.role) + "\n";
  EXPECT_EQ(names,
            "net.a linear parameter\nnet.a linear saved for backward\n"
            "net.a relu parameter\nnet.a relu saved for backward\n"
            "net.b linear parameter\nnet.b linear saved for backward\n"
            "net.b relu parameter\nnet.b relu saved for backward\n");
  for (Block* b : kept) allocator.deallocate(b);
}

TEST_P(Diff, TellsOtherBlocksOfAsManyBytes) {
  Block* one = take(4 * MiB, "net", "relu", Role::saved);
  const Holdings before = mark(allocator);
  allocator.deallocate(one);
  Block* const two[] = {take(2 * MiB, "net", "relu", Role::saved), take(2 * MiB, "net", "relu", Role::saved)};
  const Difference d = diff(before, mark(allocator));
  EXPECT_EQ(d.bytes(), 0);
  ASSERT_EQ(d.rows.size(), 1u);
  EXPECT_EQ(d.rows[0].bytes, 0);
  EXPECT_EQ(d.rows[0].blocks, 1);
  for (Block* b : two) allocator.deallocate(b);
}

TEST_P(Diff, OfTwoMarksIsWhatHappenedBetween) {
  std::mt19937 random(7);
  const char* modules[] = {"", "net.a", "net.b"};
  const char* ops[] = {"", "relu", "linear"};
  std::vector<Block*> live;
  Holdings last = mark(allocator);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 100; ++i) {
      if (!live.empty() && random() % 2 == 0) {
        std::swap(live[random() % live.size()], live.back());
        allocator.deallocate(live.back());
        live.pop_back();
      } else {
        live.push_back(take(1 + random() % (3 * MiB), modules[random() % 3], ops[random() % 3],
                            static_cast<Role>(random() % role_count)));
      }
    }
    const Holdings now = mark(allocator);
    EXPECT_EQ(static_cast<std::size_t>(now.bytes), allocator.statistics().allocated.current);
    const Difference d = diff(last, now);
    EXPECT_EQ(d.bytes(), now.bytes - last.bytes);
    std::int64_t bytes = 0, blocks = 0;
    for (const Holding& h : d.rows) bytes += h.bytes, blocks += h.blocks;
    EXPECT_EQ(bytes, d.bytes());
    const auto count = [](const Holdings& h) {
      return std::accumulate(h.rows.begin(), h.rows.end(), std::int64_t{0},
                             [](std::int64_t n, const Holding& row) { return n + row.blocks; });
    };
    EXPECT_EQ(static_cast<std::size_t>(count(now)), live.size());
    EXPECT_EQ(blocks, count(now) - count(last));
    EXPECT_TRUE(std::is_sorted(d.rows.begin(), d.rows.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; }));
    last = now;
  }
  for (Block* b : live) allocator.deallocate(b);
  EXPECT_TRUE(mark(allocator).rows.empty());
}

TEST_P(Diff, SeesABlockThatChangedItsRole) {
  Block* b = take(KiB, "net.a", "relu", Role::temporary);
  const Holdings before = mark(allocator);
  allocator.hold_saved(b);
  const Difference d = diff(before, mark(allocator));
  EXPECT_EQ(d.bytes(), 0);
  ASSERT_EQ(d.rows.size(), 2u);
  EXPECT_EQ(d.rows[0].role, Role::saved);
  EXPECT_EQ(d.rows[1].role, Role::temporary);
  allocator.drop_saved(b, false);
  allocator.deallocate(b);
}

TEST_P(Diff, IsOfOneMemory) {
  Allocator other(Device::meta(), std::make_unique<SimulatedUpstream>(), GetParam(), "pinned:cuda");
  EXPECT_THROWS_SAYING(diff(mark(allocator), mark(other)), ValueError,
                       "expected marks of the same memory, got meta and pinned:cuda");
}

INSTANTIATE_TEST_SUITE_P(Modes, Diff, ::testing::Values(Allocator::Mode::caching, Allocator::Mode::direct),
                         [](const auto& info) {
                           return std::string(info.param == Allocator::Mode::caching ? "Caching" : "Direct");
                         });

}  // namespace
}  // namespace bytetape::memory
