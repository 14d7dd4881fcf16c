// Runs the same tests on each rank. The results of rank 0 are printed, those of others only if they fail.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "bytetape/distributed/group.h"
#include "bytetape/distributed/run.h"

namespace {

/// Prints the failures of a rank.
class Failures : public ::testing::EmptyTestEventListener {
 public:
  explicit Failures(int rank) : rank_(rank) {}
  void OnTestStart(const ::testing::TestInfo& info) override { test_ = &info; }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::printf("[  FAILED  ] %s.%s on rank %d, %s:%d: %s\n", test_ ? test_->test_suite_name() : "",
                test_ ? test_->name() : "", rank_, result.file_name() ? result.file_name() : "", result.line_number(),
                result.message());
    std::fflush(stdout);
  }

 private:
  const int rank_;
  const ::testing::TestInfo* test_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int failed = 0;
  const int ended = bytetape::dist::run([&] {
    if (const int rank = bytetape::dist::init(std::chrono::seconds(60)).rank(); rank > 0) {
      auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
      delete listeners.Release(listeners.default_result_printer());
      listeners.Append(new Failures(rank));
    }
    failed = RUN_ALL_TESTS();
  });
  return ended + failed;
}
