#include "bytetape/core/memory/allocator/cgroup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "bytetape/core/memory/allocator/upstream.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t unbounded = std::numeric_limits<std::size_t>::max();

class Cgroup : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder); }
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::size_t limit() { return cgroup_memory_limit(folder / "membership", folder / "mount"); }
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("bytetape-cgroup-test-" + std::to_string(getpid()));
};

TEST_F(Cgroup, IsNoBoundWhereNothingCanBeRead) {
  EXPECT_EQ(limit(), unbounded);
  write("membership", "0::/job\nnonsense\n:\n");
  EXPECT_EQ(limit(), unbounded);
}

TEST_F(Cgroup, IsNotReadFromLinesWithoutAGroup) {
  write("mount/memory/memory.limit_in_bytes", "7000000\n");
  for (const char* line : {"memory", "4:memory", ":memory", "memory:"}) {
    write("membership", line);
    EXPECT_EQ(limit(), unbounded) << line;
  }
  write("membership", "4:memory:/");
  EXPECT_EQ(limit(), 7000000u);
  write("mount/memory.max", "1000000");
  EXPECT_EQ(limit(), 1000000u) << "the least of both versions";
}

TEST_F(Cgroup, OfOtherControllersIsNone) {
  write("mount/memory/memory.limit_in_bytes", "7000000\n");
  for (const char* line : {"4:cpu:/", "4:memory_hotplug:/", "4:name=memory:/"}) {
    write("membership", line);
    EXPECT_EQ(limit(), unbounded) << line;
  }
  for (const char* line : {"4:memory,cpu:/", "4:cpu,memory,io:/", "0::/\n4:cpu,memory:/"}) {
    write("membership", line);
    EXPECT_EQ(limit(), 7000000u) << line;
  }
}

TEST_F(Cgroup, BoundsItsOwnGroup) {
  write("membership", "0::/user/job\n");
  write("mount/user/job/memory.max", "1073741824\n");
  EXPECT_EQ(limit(), std::size_t{1} << 30);
  write("mount/user/job/memory.max", "max\n");
  EXPECT_EQ(limit(), unbounded);
}

TEST_F(Cgroup, IsTheLeastOfAllAboveIt) {
  write("membership", "0::/user/job/\n");
  write("mount/user/job/memory.max", "3000000\n");
  write("mount/user/memory.max", "2000000\n");
  EXPECT_EQ(limit(), 2000000u);
  write("mount/memory.max", "1000000\n");
  EXPECT_EQ(limit(), 1000000u);
}

TEST_F(Cgroup, IsOfWholeNames) {
  write("mount/user/jo/memory.max", "1000\n");
  write("mount/user/job2/memory.max", "1000\n");
  write("mount/memory.max", "3000000\n");
  for (const char* line : {"0::/user/job\n", "0::user\n", "0::\n"}) {
    write("membership", line);
    EXPECT_EQ(limit(), 3000000u) << line;
  }
}

TEST_F(Cgroup, IsTheRootsInAContainer) {
  write("mount/memory.max", "5000000\n");
  EXPECT_EQ(limit(), 5000000u) << "no membership";
  write("membership", "0::/../../of/the/host\n");
  EXPECT_EQ(limit(), 5000000u);
}

TEST_F(Cgroup, OfVersionOneCountsToo) {
  write("membership", "5:devices:/other\n4:cpu,memory:/user/job\n0::/\n");
  write("mount/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), 9223372036854771712u);
  write("mount/memory/user/job/memory.limit_in_bytes", "7000000\n");
  EXPECT_EQ(limit(), 7000000u);
}

TEST(Upstream, HostHasNoMoreThanItsGroupAllows) {
  const auto physical =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  EXPECT_EQ(HostUpstream().capacity(), std::min(physical, cgroup_memory_limit()));
}

}  // namespace
}  // namespace bytetape::memory
