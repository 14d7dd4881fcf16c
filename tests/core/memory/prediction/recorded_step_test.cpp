// RecordedStep, from which memory::advise() reads a step's peak, saved bytes and times.
#include "bytetape/core/memory/prediction/checkpoint_effects.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/core/memory/prediction/story.h"

namespace bytetape::memory {
namespace {

// ---- the step

struct TrainedStep {
  std::size_t kib;
  bool is_training = true, ends = true;
};
/// Which of the steps is the one with the highest peak.
std::optional<std::size_t> highest(const std::vector<TrainedStep>& steps, std::size_t kib_of_setup = 0) {
  Story s;
  if (kib_of_setup) s.alloc('s', kib_of_setup), s.free('s');
  std::vector<Range> ranges;
  for (const TrainedStep& step : steps) {
    s.by(Phase::forward, "net");
    const std::size_t begin = s.begin_step();
    s.alloc('a', step.kib);
    s.by(step.is_training ? Phase::backward : Phase::forward, "net").free('a');
    ranges.push_back({begin, step.ends ? s.end_step() : 0});
    // These records are between two steps.
    s.by(Phase::backward, "").alloc('b', 100);
    s.free('b');
  }
  const std::optional<Range> found = highest_training_step(s.device().records);
  if (!found) return std::nullopt;
  const auto at = std::find_if(ranges.begin(), ranges.end(),
                               [&](const Range& r) { return r.begin == found->begin && r.end == found->end; });
  return static_cast<std::size_t>(at - ranges.begin());
}

TEST(HighestTrainingStep, RanBackwardAndEnded) {
  constexpr bool evaluates = false, trains = true, breaks_off = false;
  EXPECT_EQ(highest({}), std::nullopt);
  EXPECT_EQ(highest({{4}}), 0u);
  EXPECT_EQ(highest({{4}}, 50), 0u) << "the setup took more";
  EXPECT_EQ(highest({{4, evaluates}}), std::nullopt);
  EXPECT_EQ(highest({{4, trains, breaks_off}}), std::nullopt);
  EXPECT_EQ(highest({{4}, {6}, {5}}), 1u);
  EXPECT_EQ(highest({{6}, {4}, {5}}), 0u);
  EXPECT_EQ(highest({{4}, {6}, {6}}), 1u) << "the first of equals";
  EXPECT_EQ(highest({{4}, {9, evaluates}, {5}}), 2u);
  EXPECT_EQ(highest({{5}, {9, evaluates}, {4}}), 0u);
  EXPECT_EQ(highest({{5}, {9, trains, breaks_off}}), 0u);
  EXPECT_EQ(highest({{9, trains, breaks_off}, {5}}), 1u);
}

// ---- who saved what

/// A step of net.a and net.b, which save 4 and 2 KiB, with 2 KiB from before it and a peak of 9 KiB. Marks are missing.
Story two_modules() {
  Story s;
  s.by(Phase::setup, "").alloc('x', 2);
  s.alloc('z', 32);  // gone before the step
  s.free('z');
  s.by(Phase::forward, "");
  s.begin_step();  // at 30 ns
  s.by(Phase::forward, "net.a").alloc('a', 4);
  s.hold('a');
  s.by(Phase::forward, "net.b").alloc('b', 2);
  s.hold('b');
  s.alloc('c', 1);  // the peak, at 80 ns
  s.by(Phase::backward, "net.b").free('c');
  s.drop('b');
  s.free('b');
  s.alloc('d', 3);  // as high, but later
  s.free('d');
  s.by(Phase::backward, "net.a").drop('a');
  s.free('a');
  s.alloc('e', 1);
  s.hold('e');
  s.free('e');
  s.end_step();  // at 190 ns
  return s;
}

using Saved = std::map<std::string, std::size_t>;

TEST(RecordedSteps, PeakCountsWhatWasHeldBefore) {
  const Story s = two_modules();
  EXPECT_EQ(s.step().peak(), 9 * KiB);
}

double share_of_forward(const RecordedStep& step, const std::string& module) {
  const std::uint64_t all = step.forward_time();
  return all ? static_cast<double>(step.forward_time(module)) / static_cast<double>(all) : 0;
}

TEST(RecordedSteps, SavedBytesAreThoseOfTheModulesThatRanForwardInTheStep) {
  Story s = two_modules();
  EXPECT_EQ(s.step().saved_by_module(), Saved{}) << "nothing ran";
  using Kind = Mark::Kind;
  s.mark(Kind::module, "net", true, 30);
  s.mark(Kind::module, "net.a", true, 40);
  s.mark(Kind::module, "net.b", true, 190);  // as late as can be
  s.mark(Kind::module, "net.idle", true, 60);
  const Saved saved{{"net", 6 * KiB}, {"net.a", 4 * KiB}, {"net.b", 2 * KiB}, {"net.idle", 0}};
  EXPECT_EQ(s.step().saved_by_module(), saved);
  // These are no modules that ran forward in the step.
  s.mark(Kind::op, "net.an_op", true, 60);
  s.mark(Kind::phase, "net.a_phase", true, 60);
  s.mark(Kind::module, "net.ends", false, 60);
  s.mark(Kind::module, "net.backward", true, 60, Phase::backward);
  s.mark(Kind::module, "net.before", true, 29);
  s.mark(Kind::module, "net.later", true, 191);
  s.mark(Kind::module, "", true, 60);
  s.mark(Kind::module, "(root) Net", true, 60);
  EXPECT_EQ(s.step().saved_by_module(), saved);
}

TEST(RecordedSteps, SavedBytesAreHeldByANodeAtThePeak) {
  const auto saved = [](void (*tell)(Story&)) {
    Story s;
    s.by(Phase::forward, "net").begin_step();
    tell(s);
    s.by(Phase::backward, "net").wait();
    s.end_step();
    s.runs("net", 0, 50);
    return s.step().saved_by_module().at("net") / KiB;
  };
  EXPECT_EQ(saved([](Story& s) { s.alloc('a', 1), s.alloc('b', 2), s.hold('b'); }), 2u) << "b only";
  EXPECT_EQ(saved([](Story& s) { s.alloc('a', 1), s.hold('a'), s.alloc('b', 2); }), 1u);
  EXPECT_EQ(saved([](Story& s) { s.alloc('a', 1), s.hold('a'), s.free('a'), s.alloc('b', 2); }), 0u);
  EXPECT_EQ(saved([](Story& s) { s.alloc('b', 2), s.free('b'), s.alloc('a', 1), s.hold('a'); }), 0u);
  EXPECT_EQ(saved([](Story& s) { s.alloc('a', 1), s.hold('a'), s.hold('a'); }), 1u) << "two nodes, one block";
}

// ---- time

TEST(RecordedSteps, ForwardTimeIsOfForwardsThatABackwardFollowed) {
  Story s;
  const auto phase = [&](Phase p, std::uint64_t time) { s.by(p, "net").wait(), s.records().back().time = time; };
  s.by(Phase::setup, "").begin_step();
  s.records().back().time = 100;
  phase(Phase::data, 110);
  phase(Phase::forward, 120);
  phase(Phase::forward, 170);
  phase(Phase::backward, 200);  // 100 ns since the step began
  phase(Phase::backward, 220);
  phase(Phase::forward, 300);
  phase(Phase::forward, 350);
  phase(Phase::backward, 400);  // 100 ns
  phase(Phase::backward, 450);
  phase(Phase::optimizer, 460);
  phase(Phase::forward, 500);
  phase(Phase::backward, 700);  // 200 ns
  phase(Phase::forward, 750);   // nothing follows
  phase(Phase::optimizer, 800);
  s.end_step();
  s.records().back().time = 900;
  using Kind = Mark::Kind;
  EXPECT_EQ(share_of_forward(s.step(), "net"), 0);
  s.runs("net", 120, 170);
  EXPECT_EQ(share_of_forward(s.step(), "net"), 0.125);
  s.runs("net", 300, 350);
  s.runs("net.a", 300, 340);
  EXPECT_EQ(share_of_forward(s.step(), "net"), 0.25) << "all calls";
  EXPECT_EQ(share_of_forward(s.step(), "net.a"), 0.1);
  EXPECT_EQ(share_of_forward(s.step(), "nobody"), 0);
  // An op with the module's name, other phases, other steps, and what began before the recording.
  for (const bool begins : {true, false}) {
    s.mark(Kind::op, "net", begins, begins ? 130 : 160);
    s.mark(Kind::module, "net", begins, begins ? 210 : 220, Phase::backward);
    s.mark(Kind::module, "net", begins, begins ? 50 : 99);
    s.mark(Kind::module, "net", begins, begins ? 901 : 999);
  }
  s.mark(Kind::module, "net", false, 160, Phase::forward, 2);
  EXPECT_EQ(share_of_forward(s.step(), "net"), 0.25);
  // Threads interleave.
  s.mark(Kind::module, "net.b", true, 100, Phase::forward, 1);
  s.mark(Kind::module, "net.b", true, 120, Phase::forward, 2);
  s.mark(Kind::module, "net.b", false, 140, Phase::forward, 1);
  s.mark(Kind::module, "net.b", false, 900, Phase::forward, 2);
  EXPECT_EQ(share_of_forward(s.step(), "net.b"), (40 + 780) / 400.0);
}

TEST(RecordedSteps, ForwardTimeIsNoneWithoutABackward) {
  Story s;
  s.by(Phase::forward, "net").begin_step();
  s.wait();
  s.end_step();
  s.runs("net", 0, 10);
  EXPECT_EQ(share_of_forward(s.step(), "net"), 0);
}

}  // namespace
}  // namespace bytetape::memory
