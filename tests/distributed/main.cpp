// Runs the same tests on each rank. The results of rank 0 are printed, those of others only if they fail.
#include <gtest/gtest.h>

#include <chrono>

#include "bytetape/distributed/group.h"
#include "bytetape/distributed/run.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int failed = 0;
  const int ended = bytetape::dist::run([&] {
    if (bytetape::dist::init(std::chrono::seconds(60)).rank() > 0) {
      auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
      delete listeners.Release(listeners.default_result_printer());
    }
    failed = RUN_ALL_TESTS();
  });
  return ended + failed;
}
