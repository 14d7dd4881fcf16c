#include "bytetape/core/memory/allocator/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pool.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/recording.h"
#include "tests/support/temporary_dir.h"

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
      HasSubstr("out of memory on meta: 65.0 MiB (68,157,440 bytes) requested by matmul in module 'net.fc2'\n"));
}

TEST_F(Shortages, SayInWhichStepAndPhase) {
  allocator.set_limit(MiB);
  {
    const PhaseScope phase(Phase::backward);
    EXPECT_THAT(fail(2 * MiB).what(), HasSubstr("requested (backward)\n"));
  }
  const OpenStep step = allocator.begin_sole_step(7);
  const ScopeGuard scope({intern("net.fc2"), intern("matmul"), Phase::forward});
  const OutOfMemory e = fail(2 * MiB);
  EXPECT_THAT(e.what(), HasSubstr("requested by matmul in module 'net.fc2' in step 7 (forward)\n"));
  EXPECT_EQ(e.shortage().step, 7u);
  EXPECT_EQ(e.shortage().phase, Phase::forward);
  allocator.end_step(step);
}

TEST_F(Shortages, SayNothingOfWhoOutsideOpsAndModules) {
  allocator.set_limit(MiB);
  EXPECT_THAT(fail(2 * MiB).what(), HasSubstr("(2,097,152 bytes) requested\n"));
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
  EXPECT_THAT(e.what(), HasSubstr("of rounding"));
  for (Block* b : held) allocator.deallocate(b);
}

TEST_F(Shortages, ATrueOneSaysHowMuchIsMissing) {
  allocator.set_limit(64 * MiB);
  Block* held = take(40 * MiB, Role::parameter);
  const OutOfMemory e = fail(30 * MiB);
  EXPECT_FALSE(e.shortage().fragmented());
  EXPECT_EQ(e.shortage().missing(), 6 * MiB);
  EXPECT_THAT(e.what(), HasSubstr("a true shortage: 24.0 MiB are free, 6.00 MiB are missing for this request\n"));
  EXPECT_THAT(e.what(), HasSubstr("the largest request that fits now: 24.0 MiB (25,165,824 bytes)"));
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
  EXPECT_THAT(
      e.what(),
      HasSubstr(
          "fragmentation: 20.0 MiB are free in total, but the largest piece is 5.00 MiB too small for this request\n"
          "if all blocks were placed anew, 20.0 MiB would be free in one piece\n"));
  EXPECT_EQ(e.shortage().max_fit_if_compacted, 20 * MiB);
  EXPECT_THAT(e.what(), HasSubstr("the largest request that fits now: 4.00 MiB"));
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
  EXPECT_THAT(e.what(),
              HasSubstr("a shortage: 2.00 MiB are free in total, but 2.00 MiB of it serve only requests up to "
                        "1.00 MiB\neven if all blocks were placed anew, only 1.00 MiB would be free in one piece\n"));
  expect_exactly_fits(MiB);
  allocator.deallocate(held);
}

TEST(Obstacles, AreFragmentationIfACompactionWouldDo) {
  Shortage s;
  s.requested = 4 * MiB;
  s.limit = s.capacity = s.statistics.reserved.current = 16 * MiB;
  s.statistics.allocated.current = s.statistics.requested.current = 8 * MiB;
  s.max_fit_if_compacted = 4 * MiB;
  EXPECT_THAT(OutOfMemory(s).what(), HasSubstr("\nfragmentation: 8.00 MiB are free in total"));
  EXPECT_THAT(OutOfMemory(s).what(), HasSubstr("\nif all blocks were placed anew, 4.00 MiB would be free"));
  s.max_fit_if_compacted -= rounding;
  EXPECT_THAT(OutOfMemory(s).what(), HasSubstr("\na shortage: 8.00 MiB are free in total"));
  EXPECT_THAT(OutOfMemory(s).what(), HasSubstr("\neven if all blocks were placed anew, only 4.00 MiB would be free"));
}

// The system is asked later than the ledger, so the sum may exceed the capacity.
TEST(Obstacles, NothingIsAvailableIfMoreIsUsedThanThereIs) {
  Shortage s;
  s.requested = 4 * MiB;
  s.limit = s.capacity = 16 * MiB;
  s.statistics.reserved.current = s.statistics.allocated.current = s.statistics.requested.current = 8 * MiB;
  s.statistics.by_role[0].current = 8 * MiB;
  s.unreserved = 8 * MiB;
  s.outside = Outside{10 * MiB, {}};
  EXPECT_EQ(s.available(), 0u);
  EXPECT_EQ(s.missing(), 4 * MiB);
  const Table table = parse(OutOfMemory(s).what());
  EXPECT_EQ(table.sum, (std::pair<std::string, std::size_t>{"device", 18 * MiB}));
  EXPECT_EQ(sum(table), 18 * MiB);
  s.outside = Outside{5 * MiB, {}};
  EXPECT_EQ(s.available(), 3 * MiB);
  EXPECT_EQ(sum(parse(OutOfMemory(s).what())), 16 * MiB);
}

TEST(Obstacles, MayBeWhatOtherStreamsAndPoolsHaveCached) {
  for (const bool is_pool : {false, true}) {
    Allocator gpu(Device::meta(Device::cuda()), std::make_unique<SimulatedUpstream>());
    gpu.set_limit(20 * MiB);
    const ScopeGuard back{ambient.scope};
    const Pool pool(gpu);
    Block* held = nullptr;
    {
      const auto there = is_pool ? std::make_unique<PoolScope>(pool) : nullptr;
      ambient.scope.stream = is_pool ? 0 : 1;
      held = gpu.allocate(4 * MiB, Role::temporary);  // of a segment of 20 MiB
      ambient.scope.stream = 0;
    }
    try {
      gpu.allocate(2 * MiB, Role::temporary);
      ADD_FAILURE() << "the request was served";
    } catch (const OutOfMemory& e) {
      EXPECT_EQ(e.shortage().elsewhere, 16 * MiB);
      EXPECT_THAT(e.what(), HasSubstr("16.0 MiB of it belong to other streams or captured steps\n"));
    }
    gpu.deallocate(held);
  }
}

TEST(Obstacles, AreTheFirstThatIsEnoughToStopTheRequest) {
  struct Case {
    const char* what;
    std::size_t requested, unusable, elsewhere;
    const char* says;
  };
  // 8 MiB are cached, none in a piece above 1 MiB. Nothing else is free.
  const Case cases[] = {
      {"all could be used", 4 * MiB, 0, 0, "but the largest piece is 3.00 MiB too small for this request\n"},
      {"just enough could", 4 * MiB, 2 * MiB, 2 * MiB,
       "but the largest piece is 3.00 MiB too small for this request\n"},
      {"not enough, by other streams", 4 * MiB, 2 * MiB, 3 * MiB,
       "but 3.00 MiB of it belong to other streams or captured steps\n"},
      {"just enough is in large segments", 4 * MiB, 4 * MiB, 0, "but the largest piece is 3.00 MiB too small"},
      {"not enough, by small segments", 4 * MiB, 5 * MiB, 0, "but 5.00 MiB of it serve only requests up to 1.00 MiB\n"},
      {"not enough, by both", 4 * MiB, 3 * MiB, 2 * MiB,
       "but 2.00 MiB of it belong to other streams or captured steps\n"},
  };
  for (const Case& c : cases) {
    Shortage s;
    s.requested = c.requested;
    s.limit = s.capacity = s.statistics.reserved.current = 16 * MiB;
    s.statistics.allocated.current = s.statistics.requested.current = 8 * MiB;
    s.largest_free = MiB;
    s.unusable = c.unusable;
    s.elsewhere = c.elsewhere;
    EXPECT_TRUE(s.fragmented()) << c.what;
    EXPECT_THAT(OutOfMemory(s).what(), HasSubstr(c.says)) << c.what;
  }
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
  EXPECT_THAT(e.what(), HasSubstr("the largest request that fits now: 0 B"));
  allocator.deallocate(held);
}

TEST_F(Shortages, ThatFillTheLimitAreNotOverIt) {
  allocator.set_limit(2 * MiB);
  Block* held = take(2 * MiB);
  const OutOfMemory e = fail(1);
  EXPECT_EQ(parse(e.what()).sum, (std::pair<std::string, std::size_t>{"limit", 2 * MiB}));
  EXPECT_THAT(e.what(), Not(HasSubstr("over the limit by")));
  EXPECT_THAT(e.what(), Not(HasSubstr("free, in pieces"))) << "nothing is cached";
  allocator.deallocate(held);
}

TEST_F(Shortages, WithoutHoldersNameNone) {
  allocator.set_limit(MiB);
  EXPECT_THAT(fail(2 * MiB).what(), Not(HasSubstr("largest holders")));
}

TEST_F(Shortages, TheSystemMayRefuseWithoutACacheToo) {
  Allocator tight(Device::meta(), std::make_unique<SimulatedUpstream>(8 * MiB), Allocator::Mode::direct);
  tight.set_limit(100 * MiB);
  try {
    tight.allocate(9 * MiB, Role::temporary);
    FAIL() << "expected OutOfMemory";
  } catch (const OutOfMemory& e) { EXPECT_TRUE(e.shortage().refused()); }
  EXPECT_EQ(tight.statistics().reserved.current, 0u);
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
  for (std::size_t i = 0; i < 12; ++i) {
    const ModuleScope module(intern("net.layer" + std::to_string(i)));
    held.push_back(take((i + 1) * 100 * KiB, Role::parameter));
    if (i == 9) held.push_back(take(3 * MiB, Role::parameter));
  }
  {
    const ScopeGuard scope({intern("net.layer3"), intern("matmul")});
    held.push_back(take(7 * MiB, Role::gradient));
  }
  const std::string text = fail(60 * MiB).what();
  EXPECT_THAT(text, HasSubstr(R"(
largest holders
   7.00 MiB  net.layer3   gradient   matmul
   3.98 MiB  net.layer9   parameter  2 blocks
   1.17 MiB  net.layer11  parameter
   1.07 MiB  net.layer10  parameter
    900 KiB  net.layer8   parameter
)"));
  EXPECT_THAT(text, HasSubstr("\n    600 KiB  in 3 more\n"));
  EXPECT_THAT(text, Not(HasSubstr("net.layer0")));
  for (Block* b : held) allocator.deallocate(b);
}

/// A simulated GPU: some of its memory is the driver's and other processes'.
class SharedUpstream final : public Upstream {
 public:
  SharedUpstream(std::size_t bytes, Outside outside) : bytes_(bytes), outside_(outside), rest_(bytes - outside.bytes) {}
  SharedUpstream(std::size_t bytes, std::size_t outside) : SharedUpstream(bytes, Outside{outside, {}}) {}
  void* allocate(std::size_t bytes) noexcept override { return rest_.allocate(bytes); }
  void deallocate(void* data, std::size_t bytes) noexcept override { rest_.deallocate(data, bytes); }
  std::size_t capacity() const override { return bytes_; }
  std::optional<Outside> outside() const override { return outside_; }

 private:
  std::size_t bytes_;
  Outside outside_;
  SimulatedUpstream rest_;
};

TEST_F(Shortages, TheTableOfAGpuSumsToTheDevice) {
  Allocator gpu(Device::cuda(), std::make_unique<SharedUpstream>(100 * MiB, 30 * MiB));
  Block* held = gpu.allocate(40 * MiB, Role::parameter);
  const auto fail_on_gpu = [&](std::size_t bytes) {
    try {
      gpu.deallocate(gpu.allocate(bytes, Role::temporary));
    } catch (const OutOfMemory& e) { return e; }
    throw std::logic_error("the request was served");
  };
  const auto rows = [](const OutOfMemory& e) {
    std::map<std::string, std::size_t> bytes;
    for (const auto& [name, n] : parse(e.what()).rows) bytes[name] = n;
    return bytes;
  };
  OutOfMemory e = fail_on_gpu(31 * MiB);
  using Rows = std::map<std::string, std::size_t>;
  EXPECT_EQ(
      rows(e),
      (Rows{{"parameter", 40 * MiB}, {"cached", 0}, {"not reserved", 30 * MiB}, {"outside the ledger", 30 * MiB}}));
  EXPECT_EQ(parse(e.what()).sum, (std::pair<std::string, std::size_t>{"device", 100 * MiB}));
  EXPECT_FALSE(e.shortage().refused()) << "the limit has 60 MiB more, but the device has not";
  EXPECT_THAT(e.what(), HasSubstr("a true shortage: 30.0 MiB are free, 1.00 MiB are missing for this request\n"));
  EXPECT_EQ(e.shortage().fits(), 30 * MiB);
  gpu.deallocate(gpu.allocate(30 * MiB, Role::temporary));
  gpu.empty_cache();
  gpu.set_limit(60 * MiB);
  e = fail_on_gpu(21 * MiB);
  EXPECT_EQ(rows(e), (Rows{{"parameter", 40 * MiB},
                           {"cached", 0},
                           {"not reserved", 20 * MiB},
                           {"outside the ledger", 30 * MiB},
                           {"beyond the limit", 10 * MiB}}));
  EXPECT_EQ(sum(parse(e.what())), 100 * MiB);
  EXPECT_THAT(e.what(), HasSubstr("\n  limit                   60.0 MiB            62,914,560\n"));
  gpu.set_limit(35 * MiB);
  e = fail_on_gpu(MiB + 1);
  EXPECT_EQ(sum(parse(e.what())), 100 * MiB);
  EXPECT_THAT(e.what(), HasSubstr("over the limit by"));
  gpu.deallocate(held);
}

TEST_F(Shortages, OtherProcessesHaveALineWhereTheDriverTells) {
  Allocator gpu(Device::cuda(), std::make_unique<SharedUpstream>(100 * MiB, Outside{30 * MiB, 20 * MiB}));
  try {
    gpu.allocate(71 * MiB, Role::temporary);
    FAIL() << "the request was served";
  } catch (const OutOfMemory& e) {
    const Table table = parse(e.what());
    EXPECT_THAT(e.what(),
                HasSubstr("\n  outside the ledger      10.0 MiB            10,485,760   CUDA's context and libraries\n"
                          "  other processes         20.0 MiB            20,971,520\n"));
    EXPECT_EQ(sum(table), 100 * MiB);
  }
}

TEST_F(Shortages, SayWhereTheRecordingIs) {
  allocator.set_limit(MiB);
  EXPECT_THAT(fail(2 * MiB).what(), Not(HasSubstr("what led to it")));
  const test::TemporaryDir dir;
  const Recording recording(dir / "run.memlog");
  EXPECT_THAT(fail(2 * MiB).what(), ::testing::EndsWith("\nall events are recorded in " + (dir / "run.memlog")));
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
  EXPECT_EQ(kept->shortage().outside, std::nullopt) << "on the CPU it does not bound what can be reserved";
  EXPECT_THAT(kept->what(), Not(HasSubstr("outside the ledger")));
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

// ---- the example of docs/memory_reference.md, and others like it

class Pages : public ::testing::Test {
 protected:
  Block* take(const char* module, const char* op, Role role, std::size_t bytes) {
    const ScopeGuard scope({intern(module), intern(op), Phase::setup});
    return held.emplace_back(allocator->allocate(bytes, role));
  }
  void model() {
    take("net.conv1", "parameter 'weight' of Conv2d", Role::parameter, 36 * KiB);
    take("net.fc1", "parameter 'weight' of Linear", Role::parameter, 4608 * KiB);
    take("net.fc1", "linear", Role::gradient, 4608 * KiB);
    take("net.fc1", "Adam", Role::optimizer_state, 4608 * KiB);
    take("net.fc1", "Adam", Role::optimizer_state, 4608 * KiB);
  }
  void start(Device device, std::unique_ptr<Upstream> upstream) {
    allocator.emplace(device, std::move(upstream), Allocator::Mode::caching, to_string(device));
  }
  std::string page(const char* module, const char* op, std::size_t bytes) {
    const OpenStep step = allocator->begin_sole_step(12);
    const ScopeGuard scope({intern(module), intern(op), Phase::forward});
    try {
      allocator->allocate(bytes, Role::temporary);
    } catch (const OutOfMemory& e) {
      allocator->end_step(step);
      return "\n" + std::string(e.what()) + "\n";
    }
    return "";
  }
  void TearDown() override {
    for (Block* b : held) allocator->deallocate(b);
  }
  std::optional<Allocator> allocator;
  std::vector<Block*> held;
};

TEST_F(Pages, OfATrueShortage) {
  start(Device::cpu(), std::make_unique<SimulatedUpstream>());
  allocator->set_limit(100 * MiB);
  model();
  for (int i = 0; i < 4; ++i) take("net.conv1", "conv2d", Role::saved, 9 * MiB);
  EXPECT_EQ(page("net.fc1", "linear", 120 * MiB), R"(
out of memory on cpu: 120 MiB (125,829,120 bytes) requested by linear in module 'net.fc1' in step 12 (forward)

  parameter               4.54 MiB             4,755,456   ▉
  gradient                4.50 MiB             4,718,592   ▉
  optimizer state         9.00 MiB             9,437,184   █▊
  saved for backward      36.0 MiB            37,748,736   ███████▎
  cached                  7.96 MiB             8,351,744   free, in pieces; serves up to 2.00 MiB
  not reserved            38.0 MiB            39,845,888
  ──────────────────────────────────────────────────────
  limit                    100 MiB           104,857,600

largest holders
   36.0 MiB  net.conv1  saved for backward  conv2d, 4 blocks
   9.00 MiB  net.fc1    optimizer state     Adam, 2 blocks
   4.50 MiB  net.fc1    gradient            linear
   4.50 MiB  net.fc1    parameter           parameter 'weight' of Linear
   36.0 KiB  net.conv1  parameter           parameter 'weight' of Conv2d

a true shortage: 46.0 MiB are free, 74.0 MiB are missing for this request
later requests may need more: memory::predict() shows the memory of a whole step
the largest request that fits now: 38.0 MiB (39,845,888 bytes)
)");
}

TEST_F(Pages, OfFragmentation) {
  start(Device::cpu(), std::make_unique<SimulatedUpstream>());
  allocator->set_limit(64 * MiB);
  model();
  for (const char* op : {"conv2d", "relu", "conv2d", "relu"}) take("net.conv1", op, Role::saved, 9 * MiB);
  for (const std::size_t i : {7u, 5u}) {
    allocator->deallocate(held[i]);
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
  }
  EXPECT_EQ(page("net.fc1", "linear", 20 * MiB), R"(
out of memory on cpu: 20.0 MiB (20,971,520 bytes) requested by linear in module 'net.fc1' in step 12 (forward)

  parameter               4.54 MiB             4,755,456   █▍
  gradient                4.50 MiB             4,718,592   █▍
  optimizer state         9.00 MiB             9,437,184   ██▉
  saved for backward      18.0 MiB            18,874,368   █████▋
  cached                  26.0 MiB            27,226,112   free, in pieces; serves up to 9.00 MiB
  not reserved            2.00 MiB             2,097,152
  ──────────────────────────────────────────────────────
  limit                   64.0 MiB            67,108,864

largest holders
   18.0 MiB  net.conv1  saved for backward  relu, 2 blocks
   9.00 MiB  net.fc1    optimizer state     Adam, 2 blocks
   4.50 MiB  net.fc1    gradient            linear
   4.50 MiB  net.fc1    parameter           parameter 'weight' of Linear
   36.0 KiB  net.conv1  parameter           parameter 'weight' of Conv2d

fragmentation: 28.0 MiB are free in total, but the largest piece is 11.0 MiB too small for this request
if all blocks were placed anew, 22.0 MiB would be free in one piece
later requests may need more: the peak so far was 54.0 MiB allocated, 18.0 MiB more than now
the largest request that fits now: 9.00 MiB (9,437,184 bytes)
)");
}

TEST_F(Pages, OfAGpuThatOthersUse) {
  start(Device::cuda(), std::make_unique<SharedUpstream>(256 * MiB, 140 * MiB));
  model();
  EXPECT_EQ(page("net.conv2", "conv2d", 120 * MiB), R"(
out of memory on cuda: 120 MiB (125,829,120 bytes) requested by conv2d in module 'net.conv2' in step 12 (forward)

  parameter               4.54 MiB             4,755,456   ▍
  gradient                4.50 MiB             4,718,592   ▍
  optimizer state         9.00 MiB             9,437,184   ▊
  cached                  3.96 MiB             4,157,440   free, in pieces; serves up to 2.00 MiB
  not reserved            94.0 MiB            98,566,144
  outside the ledger       140 MiB           146,800,640   CUDA's context, libraries, other processes
  ──────────────────────────────────────────────────────
  device                   256 MiB           268,435,456

largest holders
   9.00 MiB  net.fc1    optimizer state  Adam, 2 blocks
   4.50 MiB  net.fc1    gradient         linear
   4.50 MiB  net.fc1    parameter        parameter 'weight' of Linear
   36.0 KiB  net.conv1  parameter        parameter 'weight' of Conv2d

a true shortage: 98.0 MiB are free, 22.0 MiB are missing for this request
later requests may need more: memory::predict() shows the memory of a whole step
the largest request that fits now: 94.0 MiB (98,566,144 bytes)
)");
}

TEST_F(Pages, OfARefusal) {
  start(Device::cpu(), std::make_unique<SimulatedUpstream>(64 * MiB));
  allocator->set_limit(256 * MiB);
  model();
  EXPECT_EQ(page("net.conv2", "conv2d", 96 * MiB), R"(
out of memory on cpu: 96.0 MiB (100,663,296 bytes) requested by conv2d in module 'net.conv2' in step 12 (forward)

  parameter               4.54 MiB             4,755,456   ▍
  gradient                4.50 MiB             4,718,592   ▍
  optimizer state         9.00 MiB             9,437,184   ▊
  cached                  3.96 MiB             4,157,440   free, in pieces; serves up to 2.00 MiB
  not reserved             234 MiB           245,366,784
  ──────────────────────────────────────────────────────
  limit                    256 MiB           268,435,456

largest holders
   9.00 MiB  net.fc1    optimizer state  Adam, 2 blocks
   4.50 MiB  net.fc1    gradient         linear
   4.50 MiB  net.fc1    parameter        parameter 'weight' of Linear
   36.0 KiB  net.conv1  parameter        parameter 'weight' of Conv2d

refused by the system: the limit leaves 234 MiB, but the system has no more memory
later requests may need more: memory::predict() shows the memory of a whole step
the largest request that fits now: 2.00 MiB (2,097,152 bytes)
)");
}

}  // namespace
}  // namespace bytetape::memory
