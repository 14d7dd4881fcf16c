// What the process holds beyond the ledger is measured, and shown on its own line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/resident.h"
#include "bytetape/core/memory/summary.h"
#include "bytetape/core/memory/timeline.h"

namespace bytetape::memory {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr double much = 64.0 * MiB, little = 12.0 * MiB;  // a sanitizer's shadow takes an eighth

/// Resident pages of files, the program's own among them: the system takes them back when it likes.
double bytes_of_files() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::map<std::string, double> kib;
  for (std::string word; file >> word;)
    if (word == "Rss:" || word == "Anonymous:") file >> kib[word];
  return (kib["Rss:"] - kib["Anonymous:"]) * 1024;
}

class Outside : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!resident_bytes()) GTEST_SKIP() << "this system does not tell";
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer's shadow, four bytes for each, is resident too";
#endif
  }
  /// It may fall: what was freed before and stayed resident, outside, becomes the allocator's.
  void expect_no_growth(double before, const char* when) const {
    const double now = outside();
    EXPECT_LT(now, before + little) << when;
    EXPECT_GT(now, before - much / 2) << when;
  }
  double outside() const { return static_cast<double>(a.snapshot().outside.value().bytes) - bytes_of_files(); }
  Allocator a{Device::cpu(), std::make_unique<HostUpstream>()};
};

TEST_F(Outside, GrowsByWhatIsTakenPastTheAllocator) {
  const double before = outside();
  EXPECT_GT(before, 0);
  void* data = mmap(nullptr, 64 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_NEAR(outside(), before, little) << "nothing is touched";
  std::memset(data, 1, 64 * MiB);
  EXPECT_NEAR(outside(), before + much, little);
  munmap(data, 64 * MiB);
  EXPECT_NEAR(outside(), before, little);
}

TEST_F(Outside, DoesNotGrowByWhatTheAllocatorGives) {
  for (const auto mode : {Allocator::Mode::caching, Allocator::Mode::direct}) {
    a.set_mode(mode);
    malloc_trim(0);
    const double before = outside();
    std::vector<Block*> blocks{a.allocate(40 * MiB, Role::temporary)};
    for (int i = 0; i < 24; ++i) blocks.push_back(a.allocate(MiB - 100, Role::temporary));
    expect_no_growth(before, "nothing is touched");
    for (Block* b : blocks) std::memset(b->data, 1, b->requested);
    expect_no_growth(before, "all is");
    for (Block* b : blocks) a.deallocate(b);
    if (mode == Allocator::Mode::caching) expect_no_growth(before, "cached");
    a.empty_cache();
  }
}

TEST_F(Outside, CountsTheResidentPagesOfARange) {
  auto* data = static_cast<char*>(mmap(nullptr, 64 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  madvise(data, 64 * MiB, MADV_NOHUGEPAGE);
  EXPECT_EQ(resident_bytes(data, 64 * MiB), 0u);
  std::memset(data + 30 * MiB, 1, 20 * MiB);
  EXPECT_EQ(resident_bytes(data, 64 * MiB), 20 * MiB);
  EXPECT_EQ(resident_bytes(data + 30 * MiB, 100), 100u);
  munmap(data, 64 * MiB);
  EXPECT_EQ(resident_bytes(data, 64 * MiB), std::nullopt) << "nobody's";
}

TEST_F(Outside, IsALineOfTheSummaryButNotOfTheTimeline) {
  Snapshot s = a.snapshot();
  s.outside = memory::Outside{61 * MiB, {}};
  EXPECT_THAT(summarize(s), HasSubstr("\noutside the ledger: 61.0 MiB resident ("));
  std::ostringstream with, without;
  write_timeline(s, with);
  s.outside.reset();
  write_timeline(s, without);
  EXPECT_EQ(with.str(), without.str());
  EXPECT_THAT(summarize(s), Not(HasSubstr("outside the ledger")));
}

TEST_F(Outside, OfAGpuTellsOtherProcessesApartWhereTheDriverDoes) {
  Snapshot s = a.snapshot();
  s.device = Device::cuda();
  s.outside = memory::Outside{61 * MiB, {}};
  EXPECT_THAT(summarize(s), HasSubstr("61.0 MiB used on the device (CUDA's context, libraries, other processes)\n"));
  s.outside->others = 41 * MiB;
  EXPECT_THAT(summarize(s),
              HasSubstr("\noutside the ledger: 61.0 MiB used on the device: 20.0 MiB by CUDA's context and "
                        "libraries, 41.0 MiB by other processes\n"));
}

TEST(ResidentBytes, AreKnownWhereTheSystemTells) {
  if (bytes_of_files() <= 0) GTEST_SKIP() << "this system does not tell";
  EXPECT_GT(resident_bytes().value(), static_cast<std::size_t>(bytes_of_files()));
}

TEST(Simulated, HasNothingOutside) {
  const Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>());
  EXPECT_EQ(a.snapshot().outside, std::nullopt);
}

}  // namespace
}  // namespace bytetape::memory
