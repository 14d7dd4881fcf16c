// Advice for steps that are written out record by record. tests/nn has advice for real models.
#include "bytetape/core/memory/advice.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "bytetape/core/memory/times.h"
#include "tests/core/memory/prediction/story.h"

namespace bytetape::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// Modules named by letters. Each saves so many KiB of its own until backward, and returns 1 KiB. The loss needs `loss`
/// KiB at the peak. The inputs' KiB is held too.
Story modules(const std::vector<std::size_t>& saved, std::size_t loss) {
  Story s;
  s.by(Phase::setup, "").alloc('X', 1);
  s.by(Phase::forward, "").begin_step();
  std::string all;
  for (const std::size_t kib : saved) {
    const char block = static_cast<char>('a' + all.size()), result = static_cast<char>('A' + all.size());
    const std::string name = std::string("net.") + block;
    s.by(Phase::forward, name.c_str()).argument('X');
    s.alloc(block, kib), s.hold(block);
    s.alloc(result, 1), s.result(result);
    s.runs(name.c_str(), s.records().size() * 10, s.records().size() * 10);
    all += block;
  }
  s.by(Phase::forward, "loss").alloc('Z', loss), s.free('Z');
  s.by(Phase::backward, "loss").wait();
  for (; !all.empty(); all.pop_back()) {
    s.by(Phase::backward, (std::string("net.") + all.back()).c_str()).drop(all.back());
    s.free(all.back()), s.free(static_cast<char>(all.back() - 'a' + 'A'));
  }
  s.end_step();
  return s;
}
/// "b: 12" for each piece of advice: its modules, and the peak then, in KiB.
std::vector<std::string> advised(const Story& s) {
  std::vector<std::string> all;
  for (const Advice& a : advise(s.log(), s.device())) {
    all.emplace_back();
    for (const std::string& m : a.modules) all.back() += m.substr(4);
    all.back() += ": " + std::to_string(a.peak_then / KiB);
  }
  return all;
}

TEST(AdviceOfRecords, IsEachModuleThatIsWorthItAndAGreedySet) {
  EXPECT_THAT(advised(modules({10, 3, 20}, 100)), ElementsAre("cab: 104", "c: 117", "a: 127", "b: 134"));
  EXPECT_THAT(advised(modules({10, 1, 20}, 100)), ElementsAre("ca: 105", "c: 115", "a: 125")) << "b is below 1 %";
  EXPECT_THAT(advised(modules({1, 40}, 56)), ElementsAre("ba: 59", "b: 60", "a: 99")) << "a is 1 % of 100";
  EXPECT_THAT(advised(modules({1, 40}, 57)), ElementsAre("b: 61"));
  EXPECT_THAT(advised(modules({30}, 100)), ElementsAre("a: 102")) << "one module is no set";
  EXPECT_THAT(advised(modules({}, 100)), IsEmpty());
  Story offloads = modules({30}, 100);
  offloads.records().pop_back();
  offloads.by(Phase::forward, "net.a", "evict").alloc('b', 1, Role::saved), offloads.free('b');
  offloads.end_step();
  EXPECT_THAT(advised(offloads), IsEmpty());
  EXPECT_THAT(why_not_advised(offloads.log(), offloads.device()),
              ElementsAre(StartsWith("no checkpoint is advised, because saved tensors go to the host")));
  const Log none{.devices = {DeviceLog{.name = "cpu"}}};
  EXPECT_THAT(advise(none, none.devices[0]), IsEmpty());
  EXPECT_THAT(why_not_advised(none, none.devices[0]), IsEmpty());
}

// The outer call frees what the inner one would, so that no set has both.
TEST(AdviceOfRecords, IsOfNoModuleWithinAnother) {
  const auto nested = [](std::size_t outer) {
    Story s;
    s.by(Phase::setup, "").alloc('x', 1);
    s.by(Phase::forward, "").begin_step();
    s.by(Phase::forward, "net.a").argument('x');
    if (outer) s.alloc('o', outer), s.hold('o');
    s.by(Phase::forward, "net.a.i").argument('x');
    s.alloc('i', 10), s.hold('i');
    s.alloc('y', 1), s.result('y');
    s.by(Phase::forward, "net.a").alloc('w', outer ? 1 : 90), s.free('w');
    s.result('y');
    s.by(Phase::forward, "loss").alloc('l', 100), s.free('l');
    s.by(Phase::backward, "loss").wait();
    s.by(Phase::backward, "net.a.i").drop('i'), s.free('i');
    if (outer) s.by(Phase::backward, "net.a").drop('o'), s.free('o');
    s.end_step();
    return s;
  };
  EXPECT_THAT(advised(nested(5)), ElementsAre("a: 102", "a.i: 107"));
  EXPECT_THAT(advised(nested(0)), ElementsAre("a.i: 102", "a: 103"));
}

TEST(AdviceOfRecords, SaysTheTimeOfItsModulesIfItIsKnown) {
  Story s = modules({10, 20}, 100);
  s.marks().clear();
  for (Record& r : s.records()) r.time = r.event.phase == Phase::backward ? 400 : 0;
  s.runs("net.a", 0, 40), s.runs("net.b", 100, 200);
  s.records().back().time = 400;
  std::vector<std::optional<double>> times;
  for (const Advice& a : advise(s.log(), s.device())) times.push_back(a.forward_time);
  EXPECT_THAT(times, ElementsAre(std::optional(0.35), std::optional(0.25), std::optional(0.1)));
  EXPECT_THAT(advice_texts(s.log()).at(0), ::testing::HasSubstr(" %), +140 ns a step (35 % of forward)\n"));
  s.rename("meta:cuda:1");
  for (const Advice& a : advise(s.log(), s.device())) EXPECT_EQ(a.forward_time, std::nullopt);
  EXPECT_THAT(advice_texts(s.log()).at(0), ::testing::HasSubstr(" %)\n"));
}

TEST(AdviceOfRecords, TakesNoTimesOfReplays) {
  Story s = modules({10, 20}, 100);
  s.marks().clear();
  for (Record& r : s.records()) r.time = r.event.phase == Phase::backward ? 400 : 0;
  s.runs("net.a", 0, 40), s.runs("net.b", 100, 200);
  for (const std::uint32_t step : {2, 3, 4}) {
    s.by(Phase::forward, "", "captured_step");
    s.records()[s.begin_step(step)].time = 1000 * step;
    s.mark(Mark::Kind::op, "captured_step", true, 1000 * step);
    s.mark(Mark::Kind::op, "captured_step", false, 1000 * step + 90);
    s.records()[s.end_step()].time = 1000 * step + 100;
  }
  s.complete();
  ASSERT_EQ(step_times(s.log()).size(), 4u);
  std::vector<std::optional<std::uint64_t>> times;
  for (const Advice& a : advise(s.log(), s.device())) times.push_back(a.added_time);
  EXPECT_THAT(times, ElementsAre(std::optional(140), std::optional(100), std::optional(40)));
}

TEST(AdviceOfRecords, TakesAGpusTimesFromItsWork) {
  Story s = modules({10, 20}, 100);
  s.rename("cuda:0"), s.complete();
  for (const Advice& a : advise(s.log(), s.device()))
    EXPECT_EQ(a.added_time, std::nullopt) << "only launches are known";
  s.works("net.a", 0, 30), s.works("net.b", 30, 40), s.works("net.b", 60, 100, Phase::backward);
  std::vector<std::optional<double>> times;
  for (const Advice& a : advise(s.log(), s.device())) times.push_back(a.forward_time);
  EXPECT_THAT(times, ElementsAre(std::optional(1.0), std::optional(0.25), std::optional(0.75)));
}

TEST(AdviceOfRecords, OfADeviceIsAtMostFiveTexts) {
  const Story s = modules({10, 20, 30, 40, 50, 60}, 100);
  EXPECT_EQ(advised(s).size(), 7u);
  const std::vector<std::string> texts = advice_texts(s.log());
  ASSERT_EQ(texts.size(), 5u);
  EXPECT_THAT(texts[0], StartsWith("cpu: checkpoint net.f, net.e, net.d, net.c, net.b, net.a: peak "));
  EXPECT_THAT(texts[1], StartsWith("cpu: checkpoint net.f: peak "));
  EXPECT_THAT(texts[4], StartsWith("cpu: checkpoint net.c: peak "));
}

/// Why not, of a step whose calls a change left as they are recorded.
std::vector<std::string> why_not(Story s, const std::function<bool(const Record&, const std::string&)>& is_gone) {
  std::erase_if(s.records(), [&](const Record& r) { return is_gone(r, s.log().names[r.by_module]); });
  return why_not_advised(s.log(), s.device());
}

TEST(AdviceOfRecords, SaysOfWhichModulesThereIsNoneAndWhy) {
  const auto is_passed = [](const Record& r) {
    return r.event.kind == EventKind::argument || r.event.kind == EventKind::result;
  };
  const Story s = modules({10, 1, 20}, 100);
  using Why = std::vector<std::string>;
  EXPECT_EQ(why_not(s, [](const Record&, const std::string&) { return false; }), Why{});
  EXPECT_EQ(why_not(s, [&](const Record& r, const std::string&) { return is_passed(r); }),
            (Why{"no checkpoint is advised for net.c (20.0 KiB), net.a (10.0 KiB): the recording does not have the "
                 "inputs of modules, because an earlier version wrote it or all modules begin with nn::Call"}));
  EXPECT_EQ(why_not(s, [&](const Record& r, const std::string& m) { return is_passed(r) && m != "net.a"; }),
            (Why{"no checkpoint is advised for net.c (20.0 KiB): a module can be recomputed only if its functions "
                 "return nn::call(*this, body, inputs...)"}));
  EXPECT_EQ(why_not(s,
                    [&](const Record& r, const std::string& m) {
                      return (is_passed(r) && m == "net.a") || (r.event.kind == EventKind::result && m != "net.a");
                    }),
            (Why{"no checkpoint is advised for net.a (10.0 KiB): a module can be recomputed only if its functions "
                 "return nn::call(*this, body, inputs...)",
                 "no checkpoint is advised for net.c (20.0 KiB): its calls overlap, run backward, or have no input or "
                 "no result on this device"}));
  EXPECT_EQ(why_not(s, [&](const Record& r, const std::string& m) { return is_passed(r) && m == "net.b"; }), Why{})
      << "it holds less than 1 %";
  EXPECT_EQ(why_not(modules({}, 100), [](const Record&, const std::string&) { return false; }), Why{});
  const auto none_passed = [&](const Record& r, const std::string&) { return is_passed(r); };
  EXPECT_THAT(why_not(modules({1, 40}, 56), none_passed),
              ElementsAre(HasSubstr(" for net.b (40.0 KiB), net.a (1.00 KiB):")))
      << "a is 1 % of 100 KiB";
  EXPECT_THAT(why_not(modules({1, 40}, 57), none_passed), ElementsAre(HasSubstr(" for net.b (40.0 KiB):")));
  EXPECT_THAT(why_not(modules({10, 20, 30, 40, 50}, 100), none_passed), ElementsAre(HasSubstr("net.a (10.0 KiB):")));
  EXPECT_THAT(
      why_not(modules({10, 20, 30, 40, 50, 60, 70}, 100), none_passed),
      ElementsAre(HasSubstr(" for net.g (70.0 KiB), net.f (60.0 KiB), net.e (50.0 KiB), net.d (40.0 KiB), net.c "
                            "(30.0 KiB), 2 more: the recording does not")));
}

}  // namespace
}  // namespace bytetape::memory
