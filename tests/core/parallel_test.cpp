#include "bytetape/core/parallel.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/error.h"
#include "bytetape/core/factories.h"

namespace bytetape {
namespace {

TEST(SetNumThreads, RefusesWhatNoMachineHas) {
  const int before = num_threads();
  for (const int n : {std::numeric_limits<int>::min(), -1, 0, 1025, 200000, std::numeric_limits<int>::max()}) {
    try {
      set_num_threads(n);
      ADD_FAILURE() << n << " threads";
    } catch (const ValueError& e) {
      EXPECT_EQ(e.what(), "set_num_threads: expected 1 to 1024, got " + std::to_string(n));
    }
    EXPECT_EQ(num_threads(), before);
  }
}

void set_variable(const char* name, const char* value) { value ? setenv(name, value, 1) : unsetenv(name); }

/// OpenMP reads the environment as a program starts: EXPECT_EXIT starts this one anew.
class StartedAnewDeathTest : public ::testing::Test {
 protected:
  StartedAnewDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StartedAnewDeathTest, NumThreadsOfTheEnvironmentAreBounded) {
  const auto use_all = [] {
    const Tensor x = full({1 << 20}, 3.0);
    std::exit(num_threads() <= 1024 && x.data<float>()[(1 << 20) - 1] == 3 ? 0 : 1);
  };
  const char* before = std::getenv("OMP_NUM_THREADS");
  const std::string restored = before ? before : "";
  set_variable("OMP_NUM_THREADS", "100000");
  EXPECT_EXIT(use_all(), ::testing::ExitedWithCode(0), "");
  set_variable("OMP_NUM_THREADS", before ? restored.c_str() : nullptr);
}

/// The arguments that this program was started with, as main has them.
std::vector<char*> arguments(std::string& text) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(file), {});
  std::vector<char*> argv;
  for (std::size_t at = 0; at < text.size(); at = text.find('\0', at) + 1) argv.push_back(&text[at]);
  argv.push_back(nullptr);
  return argv;
}

/// As ps and top show it.
std::string name_of_process() {
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);
  return name;
}

/// Ends the process with 0 where GOMP_SPINCOUNT is `expected` once the cores are shared, and it still has its name.
void share_and_tell(const char* policy, const char* spins, const char* expected) {
  if (!std::getenv("BYTETAPE_TEST_STARTED")) {  // the second time round the environment is share_cores'
    set_variable("BYTETAPE_TEST_STARTED", "1");
    set_variable("OMP_WAIT_POLICY", policy);
    set_variable("GOMP_SPINCOUNT", spins);
  }
  std::string text;
  share_cores(arguments(text).data());
  if (name_of_process() == "exe") std::exit(2);
  const char* now = std::getenv("GOMP_SPINCOUNT");
  std::exit(std::string(now ? now : "none") == expected ? 0 : 1);
}

TEST_F(StartedAnewDeathTest, SharingCoresSetsHowLongThreadsSpin) {
#ifdef BYTETAPE_OPENMP
  const char* expected = "10000";
#else
  const char* expected = "none";
#endif
  EXPECT_EXIT(share_and_tell(nullptr, nullptr, expected), ::testing::ExitedWithCode(0), "");
}

TEST_F(StartedAnewDeathTest, SharingCoresLeavesTheUsersChoice) {
  EXPECT_EXIT(share_and_tell(nullptr, "7", "7"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(share_and_tell("active", nullptr, "none"), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bytetape
