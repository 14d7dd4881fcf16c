#include "bytetape/core/memory/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>

#include "bytetape/core/memory/allocator.h"

namespace bytetape::memory {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

/// The rows above the rule, and the one below it: exact bytes, read back from the text.
struct Table {
  std::vector<std::pair<std::string, std::size_t>> rows;
  std::pair<std::string, std::size_t> sum;
};
std::optional<std::pair<std::string, std::size_t>> parse_row(const std::string& line) {
  static const std::regex row(R"(^  (\S.*?)\s+[\d.]+ [KMGTPE]?i?B\s+([\d,]+)(?:   .*)?$)");
  std::smatch m;
  if (!std::regex_match(line, m, row)) return std::nullopt;
  std::string digits = m[2];
  std::erase(digits, ',');
  return std::pair{m[1].str(), std::stoull(digits)};
}
Table parse(const std::string& text) {
  Table table;
  std::istringstream lines(text);
  bool below = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ─")) {
      below = true;
    } else if (const auto row = parse_row(line)) {
      if (!below)
        table.rows.push_back(*row);
      else if (table.sum.first.empty())
        table.sum = *row;
    }
  }
  return table;
}
std::size_t sum(const Table& t) {
  std::size_t bytes = 0;
  for (const auto& [name, n] : t.rows) bytes += n;
  return bytes;
}

class Shortages : public ::testing::Test {
 protected:
  Block* take(std::size_t bytes, Role role = Role::temporary) { return allocator.allocate(bytes, role); }
  /// What the failing request threw.
  OutOfMemory fail(std::size_t bytes) {
    try {
      take(bytes);
    } catch (const OutOfMemory& e) { return e; }
    throw std::logic_error("the request was served");
  }
  /// What the text says would fit does, and not one unit more.
  void expect_exactly_fits(std::size_t bytes) {
    if (bytes > 0) allocator.deallocate(take(bytes));
    EXPECT_THROW(take(bytes + 1), OutOfMemory);
  }
  Allocator allocator{Device::meta(), std::make_unique<SimulatedUpstream>(1024 * MiB)};
};

TEST_F(Shortages, SayWhoAskedForWhat) {
  allocator.set_limit(64 * MiB);
  const ModuleScope module(intern("net.fc2"));
  const Op<"matmul"> op;
  EXPECT_THAT(
      fail(48 * MiB + 17 * MiB).what(),
      HasSubstr("out of memory on meta: 65.0 MiB (68,157,440 bytes) asked for by matmul in module 'net.fc2'\n"));
}

TEST_F(Shortages, SayNothingOfWhoOutsideOpsAndModules) {
  allocator.set_limit(MiB);
  EXPECT_THAT(fail(2 * MiB).what(), HasSubstr("(2,097,152 bytes) asked for\n"));
}

TEST_F(Shortages, TheTableSumsToTheLimit) {
  allocator.set_limit(64 * MiB);
  std::vector<Block*> held{take(8 * MiB, Role::parameter), take(700 * KiB + 3, Role::gradient),
                           take(12 * MiB, Role::saved),    take(5 * KiB, Role::input),
                           take(1, Role::optimizer_state), take(3 * MiB, Role::workspace)};
  const OutOfMemory e = fail(60 * MiB);
  const Table table = parse(e.what());
  EXPECT_EQ(table.sum, (std::pair<std::string, std::size_t>{"limit", 64 * MiB}));
  EXPECT_EQ(sum(table), 64 * MiB) << e.what();
  ASSERT_EQ(table.rows.size(), 8u);
  EXPECT_EQ(table.rows[0].first, "parameter");
  EXPECT_EQ(table.rows[0].second, 8 * MiB);
  EXPECT_EQ(table.rows[6].first, "cached");
  EXPECT_EQ(table.rows[7].first, "not reserved");
  EXPECT_EQ(table.rows[7].second, e.shortage().unreserved);
  EXPECT_THAT(e.what(), HasSubstr("rounding takes"));
  for (Block* b : held) allocator.deallocate(b);
}

TEST_F(Shortages, ATrueOneSaysHowMuchIsMissing) {
  allocator.set_limit(64 * MiB);
  Block* held = take(40 * MiB, Role::parameter);
  const OutOfMemory e = fail(30 * MiB);
  EXPECT_FALSE(e.shortage().fragmented());
  EXPECT_EQ(e.shortage().missing(), 6 * MiB);
  EXPECT_THAT(e.what(), HasSubstr("a true shortage: 24.0 MiB are free, 6.00 MiB are missing\n"));
  EXPECT_THAT(e.what(), HasSubstr("what would fit now: 24.0 MiB (25,165,824 bytes) in one piece"));
  expect_exactly_fits(e.shortage().fits());
  allocator.deallocate(held);
}

TEST_F(Shortages, AFragmentedOneSaysSo) {
  allocator.set_limit(40 * MiB);
  std::vector<Block*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(take(4 * MiB));
  for (std::size_t i = 0; i < 10; i += 2) allocator.deallocate(blocks[i]);
  const OutOfMemory e = fail(9 * MiB);
  EXPECT_TRUE(e.shortage().fragmented());
  EXPECT_EQ(e.shortage().cached() + e.shortage().unreserved, 20 * MiB);
  EXPECT_THAT(e.what(),
              HasSubstr("fragmentation: 20.0 MiB are free in all, but the largest piece is 5.00 MiB short\n"));
  EXPECT_THAT(e.what(), HasSubstr("what would fit now: 4.00 MiB"));
  EXPECT_EQ(sum(parse(e.what())), 40 * MiB);
  expect_exactly_fits(e.shortage().fits());
  for (std::size_t i = 1; i < 10; i += 2) allocator.deallocate(blocks[i]);
}

TEST_F(Shortages, PiecesOfSmallSegmentsDoNotServeLargeRequests) {
  allocator.set_limit(2 * MiB);
  Block* held = take(KiB);  // leaves nearly 2 MiB in a segment of small blocks
  const OutOfMemory e = fail(MiB + MiB / 2);
  EXPECT_TRUE(e.shortage().fragmented());
  EXPECT_EQ(e.shortage().fits(), MiB);
  EXPECT_THAT(e.what(), HasSubstr("fragmentation: 2.00 MiB are free in all, but 2.00 MiB of it are for requests up to "
                                  "1.00 MiB\n"));
  expect_exactly_fits(MiB);
  allocator.deallocate(held);
}

TEST_F(Shortages, TheSystemMayRefuse) {
  Allocator tight(Device::meta(), std::make_unique<SimulatedUpstream>(10 * MiB));
  tight.set_limit(100 * MiB);
  Block* held = tight.allocate(8 * MiB, Role::parameter);
  try {
    tight.allocate(4 * MiB, Role::temporary);
    FAIL() << "served";
  } catch (const OutOfMemory& e) {
    EXPECT_TRUE(e.shortage().refused());
    EXPECT_EQ(e.shortage().missing(), 4 * MiB) << "nothing fits for sure";
    EXPECT_THAT(e.what(), HasSubstr("refused by the system: the limit leaves 92.0 MiB"));
    EXPECT_EQ(sum(parse(e.what())), 100 * MiB);
  }
  tight.deallocate(held);
  tight.deallocate(tight.allocate(9 * MiB, Role::temporary));
}

TEST_F(Shortages, ALimitBelowWhatIsReservedIsShown) {
  Block* held = take(40 * MiB, Role::parameter);
  allocator.set_limit(30 * MiB);
  const OutOfMemory e = fail(5 * MiB);
  const Table table = parse(e.what());
  EXPECT_EQ(table.sum, (std::pair<std::string, std::size_t>{"reserved", 40 * MiB}));
  EXPECT_EQ(sum(table), 40 * MiB);
  EXPECT_THAT(e.what(), HasSubstr("over the limit by"));
  EXPECT_EQ(e.shortage().unreserved, 0u);
  EXPECT_THAT(e.what(), HasSubstr("what would fit now: 0 B"));
  allocator.deallocate(held);
}

TEST_F(Shortages, AbsurdSizesAreShortagesToo) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (std::size_t bytes : {std::size_t{1} << 60, (std::size_t{1} << 62) + 1, most - 511, most}) {
    const OutOfMemory e = fail(bytes);
    EXPECT_EQ(e.shortage().requested, bytes);
    EXPECT_FALSE(e.shortage().fragmented());
    EXPECT_FALSE(e.shortage().refused());
    EXPECT_GE(e.shortage().missing(), bytes - 1024 * MiB);
    EXPECT_EQ(e.shortage().fits(), 1024 * MiB);
  }
  EXPECT_THAT(fail(std::size_t{1} << 60).what(), HasSubstr("1.00 EiB (1,152,921,504,606,846,976 bytes)"));
}

TEST_F(Shortages, NoBytesAreAUnitToo) {
  allocator.set_limit(512);
  Block* held = take(0);
  const OutOfMemory e = fail(0);
  EXPECT_FALSE(e.shortage().refused());
  EXPECT_EQ(e.shortage().needed(), 512u);
  EXPECT_EQ(e.shortage().missing(), 512u);
  allocator.deallocate(held);
}

TEST_F(Shortages, NameTheLargestHolders) {
  allocator.set_limit(64 * MiB);
  std::vector<Block*> held;
  for (int i = 0; i < 8; ++i) {
    const ModuleScope module(intern("net.layer" + std::to_string(i)));
    held.push_back(take(static_cast<std::size_t>(i + 1) * MiB + MiB / 2, Role::parameter));
  }
  {
    const ModuleScope module(intern("net.layer3"));
    held.push_back(take(7 * MiB, Role::gradient));
  }
  const std::string text = fail(60 * MiB).what();
  const std::string holders = text.substr(text.find("largest holders"));
  EXPECT_THAT(holders, HasSubstr("   8.50 MiB  net.layer7  parameter\n"
                                 "   7.50 MiB  net.layer6  parameter\n"
                                 "   7.00 MiB  net.layer3  gradient\n"
                                 "   6.50 MiB  net.layer5  parameter\n"));
  EXPECT_THAT(holders, HasSubstr("in 3 more\n"));
  EXPECT_THAT(holders, Not(HasSubstr("net.layer0")));
  for (Block* b : held) allocator.deallocate(b);
}

TEST_F(Shortages, NothingLeaksAndTheProcessGoesOn) {
  allocator.set_limit(64 * MiB);
  Block* held = take(40 * MiB, Role::parameter);
  Block* small = take(100, Role::input);
  const Snapshot before = allocator.snapshot();
  for (int i = 0; i < 3; ++i) EXPECT_THROW(take(32 * MiB), OutOfMemory);
  const Snapshot after = allocator.snapshot();
  EXPECT_EQ(after.statistics.allocated.current, before.statistics.allocated.current);
  EXPECT_EQ(after.statistics.allocated.peak, before.statistics.allocated.peak);
  EXPECT_EQ(after.statistics.requested.current, before.statistics.requested.current);
  EXPECT_EQ(after.statistics.reserved.current, before.statistics.reserved.current);
  EXPECT_EQ(after.statistics.reserved.peak, before.statistics.reserved.peak);
  EXPECT_EQ(after.statistics.allocations, before.statistics.allocations);
  EXPECT_EQ(after.by_module, before.by_module);
  EXPECT_EQ(after.by_op, before.by_op);
  ASSERT_EQ(after.events.size(), before.events.size() + 3);
  EXPECT_EQ(after.events.back().kind, EventKind::out_of_memory);
  EXPECT_EQ(after.events.back().requested, 32 * MiB);
  allocator.deallocate(take(20 * MiB));
  allocator.deallocate(held);
  allocator.deallocate(take(60 * MiB));
  allocator.deallocate(small);
}

TEST_F(Shortages, TheExceptionOutlivesItsAllocator) {
  std::unique_ptr<OutOfMemory> kept;
  {
    Allocator a(Device::cpu(), std::make_unique<HostUpstream>());
    a.set_limit(MiB);
    try {
      a.allocate(2 * MiB, Role::input);
    } catch (const OutOfMemory& e) { kept = std::make_unique<OutOfMemory>(e); }
  }
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->shortage().limit, MiB);
  EXPECT_THAT(kept->what(), HasSubstr("out of memory on cpu"));
}

TEST_F(Shortages, NoCacheModeExplainsAsWell) {
  allocator.set_mode(Allocator::Mode::direct);
  allocator.set_limit(10 * MiB);
  Block* held = take(6 * MiB);
  const OutOfMemory e = fail(5 * MiB);
  EXPECT_EQ(sum(parse(e.what())), 10 * MiB);
  EXPECT_EQ(e.shortage().fits(), 4 * MiB);
  expect_exactly_fits(4 * MiB);
  allocator.deallocate(held);
}

}  // namespace
}  // namespace bytetape::memory
