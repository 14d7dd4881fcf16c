// The thread that ends collectives, with communicators that only claim to run some. Each test has a process of its own,
// because a failure lasts as long as the process.
#include "bytetape/distributed/watch.h"

#include <atomic>
#include <cstdlib>
#include <thread>

#include "bytetape/distributed/host/channel.h"
#include "tests/distributed/ranks.h"

namespace bytetape::dist {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Has a collective that began when it was made, until it is ended.
class Stuck final : public Communicator {
 public:
  void run(const CollectiveArgs&, Workspace) override {}
  std::optional<Unfinished> unfinished() override {
    if (is_done || is_aborted) return std::nullopt;
    return Unfinished{.number = 7, .text = "all_reduce (sum) of f32, 3 elements", .waiting = Clock::now() - began_};
  }
  void abort(const std::string& text) override {
    why = text;
    is_aborted = true;
  }
  std::atomic<bool> is_done = false, is_aborted = false;
  std::string why;

 private:
  const Clock::time_point began_ = Clock::now();
};

bool becomes(const std::atomic<bool>& value, std::chrono::milliseconds within) {
  const auto end = Clock::now() + within;
  while (!value && Clock::now() < end) std::this_thread::sleep_for(1ms);
  return value;
}

[[noreturn]] void end_with(bool is_right) { std::exit(is_right ? 0 : 1); }

class WatchDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (test::world().size() > 1) GTEST_SKIP() << "needs no other ranks";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(WatchDeathTest, EndsACollectiveThatTakesTooLong) {
  EXPECT_EXIT(
      {
        channel::set_timeout(1s);
        const auto stuck = std::make_shared<Stuck>();
        const auto other = std::make_shared<Stuck>();
        other->is_done = true;
        watch(stuck, 2);
        watch(other, 2);
        const bool is_early = becomes(stuck->is_aborted, 200ms);
        const bool are_ended = becomes(stuck->is_aborted, 20s) && becomes(other->is_aborted, 20s);
        end_with(!is_early && are_ended && channel::has_failed() &&
                 stuck->why ==
                     "number 7 of its group, all_reduce (sum) of f32, 3 elements: rank 2 had no answer from "
                     "all ranks within 1 s");
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(WatchDeathTest, EndsCollectivesOfARankThatHasFailed) {
  EXPECT_EXIT(
      {
        const auto stuck = std::make_shared<Stuck>();
        watch(stuck, 1);
        channel::set_failed();
        const bool is_ended = becomes(stuck->is_aborted, 20s);
        end_with(is_ended && stuck->why ==
                                 "this rank has failed; rank 1 waited for number 7 of its group, all_reduce "
                                 "(sum) of f32, 3 elements");
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(WatchDeathTest, LeavesOthersAlone) {
  EXPECT_EXIT(
      {
        channel::set_timeout(100ms);
        const auto stuck = std::make_shared<Stuck>();
        watch(stuck, 0);
        unwatch(*stuck);
        const bool is_ended = becomes(stuck->is_aborted, 500ms);
        end_with(!is_ended && stuck.use_count() == 1 && !channel::has_failed());
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(WatchDeathTest, LetsTheProcessEndAfterItsCollectives) {
  const auto began = Clock::now();
  EXPECT_EXIT(
      {
        const auto stuck = std::make_shared<Stuck>();
        watch(stuck, 0);
        std::thread([stuck] {
          std::this_thread::sleep_for(700ms);
          stuck->is_done = true;
        }).detach();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_GE(Clock::now() - began, 700ms);
}

}  // namespace
}  // namespace bytetape::dist
