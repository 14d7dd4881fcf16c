// The effects of checkpoints on a step that is written out record by record.
// tests/nn/checkpoint_effects_test.cpp has real models.
#include "bytetape/core/memory/prediction/checkpoint_effects.h"

#include <gmock/gmock.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/memory/prediction/story.h"

namespace bytetape::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// A step, and what checkpoints come to there.
class Effects {
 public:
  explicit Effects(const Story& s) : step_(s.step()) {}
  const RecordedStep& step() const { return step_; }
  std::optional<CheckpointEffect> of(const std::string& module) const { return step_.effect_of(module); }
  /// The effect of the module's only call.
  CheckpointEffect::OfCall of_call(const std::string& module = "net") const {
    const std::optional<CheckpointEffect> effect = of(module);
    EXPECT_TRUE(effect && effect->calls.size() == 1);
    return effect ? effect->calls.at(0) : CheckpointEffect::OfCall{};
  }
  std::size_t peak_with(const std::vector<std::string>& modules) const {
    std::vector<CheckpointEffect> effects;
    for (const std::string& m : modules) effects.push_back(of(m).value());
    std::vector<const CheckpointEffect*> all;
    for (const CheckpointEffect& e : effects) all.push_back(&e);
    return step_.peak_with(all);
  }

 private:
  RecordedStep step_;
};

/// A call of net, whose input x and result y have 1 KiB each. It makes a, which a node holds: `forward` comes behind
/// that. `backward` is what net does there first, before a is dropped and freed, or `end` in place of that.
struct OneCall {
  using Part = std::function<void(Story&)>;
  Part forward = [](Story&) {};
  Part between = [](Story&) {};
  Part backward = [](Story&) {};
  Part end = [](Story& s) { s.drop('a'), s.free('a'); };

  std::size_t first_of_backward = 0, dropped = 0;  // records

  Effects effects() {
    Story s;
    s.by(Phase::setup, "").alloc('x', 1);
    s.by(Phase::forward, "").begin_step();
    s.by(Phase::forward, "net").argument('x');  // record 2
    s.alloc('a', 4);
    s.hold('a');
    forward(s);
    s.by(Phase::forward, "net").alloc('y', 1);
    s.result('y');
    s.by(Phase::forward, "loss");
    between(s);
    s.by(Phase::backward, "loss").wait();
    s.by(Phase::backward, "net");
    first_of_backward = s.records().size();
    backward(s);
    dropped = s.records().size();
    end(s);
    s.by(Phase::setup, "").end_step();
    story = s;  // RecordedStep refers to it
    return Effects(story);
  }
  Story story{};
};

TEST(RecordedEffects, FreeWhatOnlyTheModulesNodesKeepUntilItRunsAgain) {
  OneCall c;
  c.forward = [](Story& s) { s.alloc('w', 2), s.free('w'); };
  c.between = [](Story& s) { s.alloc('l', 9), s.free('l'); };
  c.backward = [](Story& s) { s.alloc('g', 2); };
  const Effects e = c.effects();
  const CheckpointEffect::OfCall call = e.of_call();
  ASSERT_EQ(call.away.size(), 1u);
  EXPECT_EQ(call.away[0].from, 9u) << "the end of the call";
  EXPECT_THAT(call.twice, IsEmpty());
  EXPECT_EQ(call.kept.size(), 1u);
  EXPECT_EQ(call.again.begin, c.first_of_backward - 1) << "the op's backward may read a before its first record";
  EXPECT_EQ(call.again.end, c.dropped + 1);
  EXPECT_EQ(call.rise, 6 * KiB) << "a and w, then a and y";
  EXPECT_EQ(e.step().peak(), (1 + 4 + 1 + 9) * KiB);
  EXPECT_EQ(e.peak_with({"net"}), (1 + 1 + 9) * KiB) << "more than x, y, g and the recomputation";
  c.between = [](Story& s) { s.alloc('l', 5), s.free('l'); };
  EXPECT_EQ(c.effects().peak_with({"net"}), (1 + 1 + 2 + 6) * KiB) << "x, y, g and the recomputation";
}

TEST(RecordedEffects, FreeNothingThatOthersHold) {
  struct Case {
    const char* what;
    OneCall call;
    bool is_away;
  };
  using Part = OneCall::Part;
  const Part none = [](Story&) {};
  const auto frees_as = [](Phase phase, const char* module) -> Part {
    return [=](Story& s) { s.drop('a'), s.by(phase, module).free('a'); };
  };
  const Part holds_again = [](Story& s) { s.hold('a'); };
  const Case cases[] = {
      {"as it is", {none, none, none}, true},
      {"a child frees it", {none, none, none, frees_as(Phase::backward, "net.fc")}, true},
      {"another module frees it", {none, none, none, frees_as(Phase::backward, "network")}, false},
      {"it is freed after backward", {none, none, none, frees_as(Phase::optimizer, "net")}, false},
      {"it is not freed", {none, none, none, [](Story& s) { s.drop('a'); }}, false},
      {"it is not dropped before it is freed", {none, none, none, [](Story& s) { s.free('a'); }}, false},
      {"its node goes in forward", {[](Story& s) { s.drop('a'); }, none, none, [](Story& s) { s.free('a'); }}, false},
      {"one of two nodes goes in forward", {[](Story& s) { s.hold('a'), s.drop('a'); }, none, none}, true},
      {"a child's node holds it",
       {[](Story& s) { s.by(Phase::forward, "net.fc").hold('a'); }, none, [](Story& s) { s.drop('a'); }},
       true},
      {"another's node holds it too", {none, holds_again, [](Story& s) { s.drop('a'); }}, false},
      {"another thread's node holds it, during the call",
       {[](Story& s) { s.by(Phase::forward, "other", "op", 2).hold('a'); }, none, [](Story& s) { s.drop('a'); }},
       false},
      {"a node of the module holds it after the call",
       {none, [](Story& s) { s.by(Phase::forward, "net").hold('a'); }, [](Story& s) { s.drop('a'); }},
       false},
      {"another thread's forward is between",
       {none, [](Story& s) { s.by(Phase::data, "", "op", 2).wait(); }, none},
       true},
  };
  for (Case c : cases) {
    const Effects e = c.call.effects();
    EXPECT_EQ(e.of("net").has_value(), c.is_away) << c.what;
    EXPECT_EQ(e.step().effects().size(), c.is_away ? 1u : 0u) << c.what;
    if (!c.is_away) continue;
    EXPECT_GE(e.of_call().again.begin, c.call.first_of_backward - 1) << c.what;
  }
}

TEST(RecordedEffects, FreeNoInput) {
  OneCall c;
  c.forward = [](Story& s) { s.hold('x'); };
  c.backward = [](Story& s) { s.drop('x'), s.free('x'); };
  EXPECT_EQ(c.effects().of_call().away.size(), 1u) << "a";
}

// b is freed so that there is an effect. a is made again while others hold the first.
TEST(RecordedEffects, MakeTwiceWhatOthersHold) {
  const auto twice = [](const OneCall::Part& between, const OneCall::Part& end, int holds = 1) {
    OneCall c;
    c.forward = [=](Story& s) {
      for (int i = 1; i < holds; ++i) s.hold('a');
      s.alloc('b', 2), s.hold('b');
    };
    c.between = between;
    c.end = [&](Story& s) {
      s.drop('b'), s.free('b');
      end(s);
    };
    const Effects e = c.effects();
    const CheckpointEffect::OfCall call = e.of_call();
    EXPECT_EQ(call.again.begin, c.dropped - 1);
    std::vector<std::pair<std::size_t, std::size_t>> ranges;
    for (const auto& t : call.twice) ranges.emplace_back(t.when.begin - c.dropped + 1, t.when.end - c.dropped);
    return ranges;
  };
  using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;
  const OneCall::Part none = [](Story&) {};
  // Offsets behind the drop of b: then free b, 1.
  EXPECT_EQ(twice(none, [](Story& s) { s.drop('a'), s.free('a'); }), Ranges{}) << "nobody holds it";
  EXPECT_EQ(twice(none, [](Story& s) { s.wait(), s.drop('a'), s.by(Phase::backward, "loss").free('a'); }),
            (Ranges{{0, 3}}))
      << "until its node drops it";
  EXPECT_EQ(twice([](Story& s) { s.hold('a'); },
                  [](Story& s) {
                    s.by(Phase::backward, "loss").drop('a');
                    s.by(Phase::backward, "net").wait();
                    s.drop('a'), s.free('a');
                  }),
            (Ranges{{0, 2}}))
      << "until the other drops it";
  EXPECT_EQ(twice([](Story& s) { s.hold('a'), s.drop('a'); }, [](Story& s) { s.drop('a'), s.free('a'); }), Ranges{})
      << "the other is gone before";
  const OneCall::Part drops_two = [](Story& s) {
    for (const char* who : {"loss", "net"})
      for (int i = 0; i < 2; ++i) s.by(Phase::backward, who).drop('a');
    s.free('a');
  };
  EXPECT_EQ(twice([](Story& s) { s.hold('a'), s.hold('a'); }, drops_two, 2), (Ranges{{0, 3}}))
      << "until both others drop it";
  EXPECT_EQ(twice(
                none,
                [](Story& s) {
                  s.drop('a'), s.wait(), s.drop('a'), s.wait();
                  s.by(Phase::backward, "loss").free('a');
                },
                2),
            (Ranges{{0, 4}}))
      << "until both its nodes drop it";
  EXPECT_EQ(twice([](Story& s) { s.hold('a'); }, [](Story& s) { s.wait(), s.free('a'), s.wait(); }), (Ranges{{0, 3}}))
      << "until it is freed";
}

TEST(RecordedEffects, FreeAResultOnceOnlyNodesCanFreeIt) {
  OneCall c;
  c.forward = [](Story& s) { s.alloc('r', 2), s.hold('r'); };
  c.between = [](Story& s) {
    s.by(Phase::forward, "net").result('r', 1);
    s.by(Phase::forward, "loss").wait();
  };
  c.backward = [](Story& s) { s.wait(), s.drop('r'), s.free('r'); };
  const Effects e = c.effects();
  std::vector<std::size_t> from;
  for (const auto& away : e.of_call().away) from.push_back(away.from);
  EXPECT_THAT(from, UnorderedElementsAre(10u, c.first_of_backward - 1));
}

TEST(RecordedEffects, RunAgainWhereTheFirstOpThatDropsBegins) {
  const auto begins = [](const OneCall::Part& backward) {
    OneCall c;
    c.backward = backward;
    c.end = [](Story& s) { s.by(Phase::backward, "net").drop('a'), s.free('a'); };
    const CheckpointEffect::OfCall call = c.effects().of_call();
    EXPECT_EQ(call.again.end, c.dropped + 1);
    return c.dropped - call.again.begin;
  };
  EXPECT_EQ(begins([](Story&) {}), 1u);
  EXPECT_EQ(begins([](Story& s) { s.wait(), s.wait(); }), 3u);
  EXPECT_EQ(begins([](Story& s) { s.by(Phase::backward, "net", "other").wait(); }), 1u) << "another op";
  EXPECT_EQ(begins([](Story& s) { s.by(Phase::backward, "net.fc").wait(); }), 1u) << "another module";
  EXPECT_EQ(begins([](Story& s) { s.by(Phase::forward, "net").wait(); }), 1u) << "a forward";
  EXPECT_EQ(begins([](Story& s) { s.wait(), s.by(Phase::forward, "net").wait(), s.by(Phase::backward, "net").wait(); }),
            2u);
}

TEST(RecordedEffects, RunAgainUntilTheFirstOfWhatItMakesGoes) {
  for (const auto& [first, second] : {std::pair{'a', 'b'}, std::pair{'b', 'a'}}) {
    OneCall c;
    c.forward = [](Story& s) { s.hold('x'), s.alloc('b', 2), s.hold('b'); };
    c.end = [&, first = first, second = second](Story& s) {
      s.drop('x'), s.wait(), s.drop(first), s.free(first), s.drop(second), s.free(second);
    };
    const Effects e = c.effects();
    EXPECT_EQ(e.of_call().again.begin, c.dropped - 1);
    EXPECT_EQ(e.of_call().again.end, c.dropped + 3);
  }
}

TEST(RecordedEffects, RunAgainUntilTheLastInputGoesIfNothingElseDoes) {
  for (const auto& [first, second] : {std::pair{'a', 'x'}, std::pair{'x', 'a'}}) {
    OneCall c;
    c.forward = [](Story& s) { s.alloc('b', 2), s.hold('b'); };
    c.between = [](Story& s) {  // a second call, whose nodes hold inputs only
      s.by(Phase::forward, "net").argument('a');
      s.argument('x', 1);
      s.hold('a'), s.hold('x');
      s.alloc('v', 1);
      s.result('v');
      s.by(Phase::forward, "loss");
    };
    c.backward = [first = first, second = second](Story& s) { s.drop(first), s.wait(), s.drop(second), s.wait(); };
    c.end = [](Story& s) { s.drop('b'), s.free('b'); };
    const CheckpointEffect both = c.effects().of("net").value();
    ASSERT_EQ(both.calls.size(), 2u);
    EXPECT_EQ(both.calls[1].kept.size(), 2u);
    EXPECT_EQ(both.calls[1].again.begin, c.first_of_backward - 1);
    EXPECT_EQ(both.calls[1].again.end, c.first_of_backward + 3);
    EXPECT_EQ(both.calls[0].again.begin, c.first_of_backward - 1) << "all is of the same op";
    EXPECT_EQ(both.calls[0].again.end, c.dropped + 1);
  }
}

TEST(RecordedEffects, DoNotRunACallAgainThatNoBackwardDrops) {
  OneCall c;
  c.between = [](Story& s) {  // a second call, the node of which stays
    s.by(Phase::forward, "net").argument('x');
    s.alloc('c', 1), s.hold('c');
    s.alloc('v', 1);
    s.result('v');
    s.by(Phase::forward, "loss");
  };
  const Effects e = c.effects();
  const CheckpointEffect both = e.of("net").value();
  const std::size_t end = c.story.records().size() - 1;
  ASSERT_EQ(both.calls.size(), 2u);
  EXPECT_EQ(both.calls[1].again.begin, end);
  EXPECT_EQ(both.calls[1].again.end, end);
}

TEST(RecordedEffects, AreNoneOfACallThatNoBackwardNeeds) {
  OneCall c;
  c.between = [](Story& s) {
    s.by(Phase::forward, "net").argument('x');
    s.alloc('v', 1);
    s.result('v');
    s.by(Phase::forward, "loss");
  };
  const CheckpointEffect both = c.effects().of("net").value();
  ASSERT_EQ(both.calls.size(), 2u);
  EXPECT_EQ(both.calls[0].away.size(), 1u);
  EXPECT_THAT(both.calls[1].kept, IsEmpty());
  EXPECT_EQ(both.calls[1].rise, 0u);
}

// Nodes run backward in reverse, so that the last of equal holds ends first. A module runs again before the first drop
// of its own.
TEST(RecordedEffects, ADropIsOfTheLastHoldOfItsModuleAndOp) {
  struct Who {
    const char *module, *op;
  };
  // The call's node holds a, and then another does. Whether the first drop is the call's.
  const auto is_own = [](Who hold, Who drop) {
    OneCall c;
    c.forward = [](Story& s) { s.alloc('b', 2), s.hold('b'); };
    c.between = [&](Story& s) { s.by(Phase::forward, hold.module, hold.op).hold('a'); };
    std::size_t first = 0, second = 0;
    c.end = [&](Story& s) {
      first = s.by(Phase::backward, drop.module, drop.op).drop('a');
      s.by(Phase::backward, "loss").wait();
      second = s.by(Phase::backward, "fourth").drop('a');
      s.drop('a');  // one more than there are
      s.by(Phase::backward, "net", "last").drop('b'), s.free('b');
    };
    const std::size_t begins = c.effects().of_call().again.begin;
    EXPECT_TRUE(begins == first - 1 || begins == second - 1) << begins;
    return begins == first - 1;
  };
  EXPECT_FALSE(is_own({"other", "op"}, {"other", "op"}));
  EXPECT_TRUE(is_own({"other", "op"}, {"net", "op"}));
  EXPECT_FALSE(is_own({"other", "op"}, {"third", "op"})) << "nobody's, so the last";
  EXPECT_FALSE(is_own({"net", "exp"}, {"net", "exp"}));
  EXPECT_TRUE(is_own({"net", "exp"}, {"net", "op"}));
  EXPECT_FALSE(is_own({"net", "op"}, {"net", "op"})) << "the last of equals";
}

TEST(RecordedEffects, EachDropIsOfAnotherHold) {
  OneCall c;
  c.forward = [](Story& s) { s.hold('a'); };
  c.backward = [](Story& s) {
    s.drop('a');
    s.by(Phase::backward, "loss").wait();
    s.by(Phase::backward, "net");
  };
  const CheckpointEffect::OfCall call = c.effects().of_call();
  EXPECT_EQ(call.again.begin, c.first_of_backward - 1);
  EXPECT_EQ(call.again.end, c.first_of_backward + 1);
}

TEST(RecordedEffects, AreOfCallsThatAreRecordedWholeAndOfNoRoot) {
  OneCall c;
  const Effects e = c.effects();
  EXPECT_TRUE(e.step().knows_calls());
  EXPECT_TRUE(e.step().knows_calls_of("net"));
  EXPECT_FALSE(e.step().knows_calls_of("loss"));
  EXPECT_THAT(e.step().torn_calls(), IsEmpty());
  EXPECT_EQ(e.of("loss"), std::nullopt);
  EXPECT_EQ(e.step().effects().size(), 1u);

  const OneCall::Part tears[] = {[](Story& s) { s.result('x'); },     // no input
                                 [](Story& s) { s.result('x', 1); },  // no input, and the second result only
                                 [](Story& s) { s.argument('x'); },   // no result
                                 [](Story& s) { s.argument('x', 1), s.result('x'); },  // the second input only
                                 [](Story& s) { s.argument('x'), s.result('x', 1); },  // the second result only
                                 [](Story& s) { s.argument('x'), s.result('x'), s.result('x'); },
                                 [](Story& s) { s.argument('x'), s.argument('x'), s.result('x'); }};
  for (const OneCall::Part& tear : tears) {
    c.between = [&](Story& s) { tear(s.by(Phase::forward, "torn")); };
    EXPECT_THAT(c.effects().step().torn_calls(), ElementsAre("torn")) << &tear - tears;
  }
  c.between = [](Story& s) { s.by(Phase::forward, "net").result('y'); };
  EXPECT_THAT(c.effects().step().torn_calls(), ElementsAre("net"));
  EXPECT_EQ(c.effects().of("net"), std::nullopt) << "though it would free a";

  Story s;
  s.by(Phase::setup, "").alloc('x', 1);
  s.by(Phase::forward, "(root) Net").begin_step();
  s.argument('x');
  s.alloc('a', 4), s.hold('a'), s.alloc('y', 1), s.result('y');
  s.by(Phase::backward, "(root) Net").drop('a'), s.free('a');
  s.end_step();
  EXPECT_THAT(Effects(s).step().effects(), IsEmpty()) << "all of the step would run twice";
}

TEST(RecordedEffects, TheRiseIsThePeakOfWhatTheCallsThreadMakes) {
  const auto rise = [](const OneCall::Part& forward) {
    OneCall c;  // a is 4, and y is 1
    c.forward = forward;
    return c.effects().of_call().rise / KiB;
  };
  EXPECT_EQ(rise([](Story&) {}), 5u);
  EXPECT_EQ(rise([](Story& s) { s.alloc('b', 2), s.free('b'); }), 6u);
  EXPECT_EQ(rise([](Story& s) { s.alloc('b', 2), s.alloc('c', 3), s.free('c'), s.free('b'); }), 9u);
  EXPECT_EQ(rise([](Story& s) { s.alloc('b', 1), s.alloc('c', 2), s.free('b'), s.free('c'), s.alloc('d', 3); }), 8u);
  EXPECT_EQ(rise([](Story& s) { s.alloc('b', 1), s.alloc('c', 2), s.free('c'), s.alloc('d', 3), s.free('b'); }), 8u);
  EXPECT_EQ(rise([](Story& s) { s.alloc('b', 2), s.hold('b'), s.drop('b'), s.free('b'); }), 7u) << "a node held it";
  EXPECT_EQ(rise([](Story& s) { s.alloc('b', 2); }), 7u) << "it is not freed in the call";
  EXPECT_EQ(rise([](Story& s) { s.free('x'); }), 5u) << "x is not made in the call";
  EXPECT_EQ(rise([](Story& s) {
              s.by(Phase::data, "", "op", 2).alloc('b', 8);
              s.free('b');
              s.by(Phase::forward, "net");
            }),
            5u)
      << "another thread's";
}

TEST(RecordedEffects, InputsStayUntilTheCallHasRunAgain) {
  OneCall c;
  c.between = [](Story& s) { s.free('x'), s.alloc('l', 6), s.free('l'); };
  c.backward = [](Story& s) { s.wait(); };
  const Effects e = c.effects();
  EXPECT_EQ(e.step().peak(), (4 + 1 + 6) * KiB);
  EXPECT_EQ(e.peak_with({"net"}), (1 + 1 + 6) * KiB) << "x, y and l";
  // The last block of the step comes after x has gone.
  c.end = [](Story& s) { s.drop('a'), s.free('a'), s.alloc('m', 7), s.free('m'); };
  EXPECT_EQ(c.effects().peak_with({"net"}), (1 + 7) * KiB) << "y and m";
  c.between = [](Story& s) { s.alloc('l', 6), s.free('l'); };
  EXPECT_EQ(c.effects().peak_with({"net"}), (1 + 1 + 7) * KiB) << "x, y and m";
}

TEST(RecordedEffects, WorkspacesDoNotAddToTheRecomputation) {
  const auto peak = [](Role role, const OneCall::Part& backward) {
    OneCall c;
    c.between = [=](Story& s) { s.alloc('V', 8, role); };
    c.backward = [&](Story& s) {
      s.by(Phase::backward, "net");
      backward(s);
    };
    c.end = [](Story& s) { s.drop('a'), s.free('a'), s.free('V'); };
    return c.effects().peak_with({"net"}) / KiB;
  };
  // x, y and V, the recomputation of a and y, and what backward adds.
  constexpr auto temporary = Role::temporary, workspace = Role::workspace;
  EXPECT_EQ(peak(temporary, [](Story&) {}), 10u + 5);
  EXPECT_EQ(peak(temporary, [](Story& s) { s.alloc('w', 7), s.free('w'); }), 10u + 5 + 7);
  EXPECT_EQ(peak(temporary, [](Story& s) { s.alloc('w', 4, workspace), s.free('w'); }), 10u + 4 + 4)
      << "a, which is back, and the workspace";
  EXPECT_EQ(peak(temporary, [](Story& s) { s.alloc('w', 7, workspace), s.alloc('t', 3); }), 10u + 4 + 7 + 3);
  EXPECT_EQ(peak(temporary,
                 [](Story& s) {
                   s.alloc('t', 3), s.alloc('w', 2, workspace), s.free('t'), s.alloc('u', 3), s.free('w'), s.free('u');
                 }),
            10u + 4 + 5)
      << "t is no workspace";
  EXPECT_EQ(peak(temporary,
                 [](Story& s) {
                   s.alloc('w', 4, workspace), s.alloc('v', 1, workspace), s.free('v'), s.alloc('t', 17);
                   s.free('w');
                 }),
            10u + 4 + 4 + 17);
  EXPECT_EQ(peak(temporary, [](Story& s) { s.alloc('w', 2, workspace), s.free('w'), s.alloc('t', 3); }), 10u + 5 + 3)
      << "the workspace is gone";
  EXPECT_EQ(peak(workspace, [](Story& s) { s.free('V'), s.alloc('w', 9), s.free('w'), s.alloc('V', 1, workspace); }),
            2u + 5 + 9)
      << "V is freed, which was there before";
}

// If no record is between, a is not gone when the call runs again, so that there are two of it.
TEST(RecordedEffects, FreeNothingIfTheyRunAgainAtOnce) {
  OneCall c;
  const Effects e = c.effects();
  EXPECT_EQ(e.of_call().away.at(0).from, e.of_call().again.begin);
  EXPECT_EQ(e.peak_with({"net"}), (1 + 4 + 1 + 5) * KiB);
  EXPECT_EQ(e.step().peak(), 6 * KiB);
}

TEST(RecordedEffects, OffloadsAreEvictionsOfWhatIsSaved) {
  const auto offloads = [](Role role, const char* op, bool is_freed) {
    Story s;
    s.by(Phase::forward, "").begin_step();
    s.alloc('a', 1, role);
    s.by(Phase::forward, "net", op);
    if (is_freed) s.free('a');
    s.alloc('b', 1), s.free('b');  // nothing of it
    s.end_step();
    return s.step().offloads();
  };
  EXPECT_TRUE(offloads(Role::saved, "evict", true));
  EXPECT_FALSE(offloads(Role::saved, "evict", false));
  EXPECT_FALSE(offloads(Role::saved, "relu", true));
  EXPECT_FALSE(offloads(Role::optimizer_state, "evict", true));
}

/// net.a and then net.b, which gets the result of net.a. Each makes and saves 4 KiB, and nothing else has memory but
/// the first input x, of 1 KiB, the results, of 2 KiB each, and 16 KiB somewhere. A node of net.a holds its result r.
enum class Where { after_forward, in_backward, between, at_the_end };
Story two_calls(Where peak) {
  Story s;
  const auto have_peak = [&](Where here, Phase phase) {
    if (peak == here) s.by(phase, "loss").alloc('l', 16), s.free('l');
  };
  s.by(Phase::setup, "").alloc('x', 1);
  s.by(Phase::forward, "").begin_step();
  s.by(Phase::forward, "net.a").argument('x');
  s.alloc('a', 4), s.hold('a');
  s.alloc('r', 2), s.hold('r');
  s.result('r');
  s.by(Phase::forward, "net.b").argument('r');
  s.alloc('b', 4), s.hold('b');
  s.alloc('y', 2);
  s.result('y');
  have_peak(Where::after_forward, Phase::forward);
  s.by(Phase::backward, "loss").wait();
  have_peak(Where::in_backward, Phase::backward);
  s.by(Phase::backward, "loss").wait();
  s.by(Phase::backward, "net.b").drop('b'), s.free('b'), s.free('y');
  s.by(Phase::backward, "loss").wait();
  have_peak(Where::between, Phase::backward);
  s.by(Phase::backward, "loss").wait();
  s.by(Phase::backward, "net.a").drop('r'), s.free('r'), s.drop('a'), s.free('a');
  have_peak(Where::at_the_end, Phase::backward);
  s.end_step();
  return s;
}

TEST(RecordedEffects, AResultThatANeighbourGetsStaysForItsSecondRun) {
  struct Case {
    Where where;
    std::size_t plain, with_a, with_b, with_both;
  };
  const Case cases[] = {
      // x, a, r, b, y; the loss could hold r; a neighbour runs again with it
      {Where::after_forward, 1 + 6 + 6, 1 + 2 + 6, 1 + 6 + 2, 1 + 2 + 2},
      // the nodes of net.a alone hold r in backward
      {Where::in_backward, 1 + 6 + 6, 1 + 6, 1 + 6 + 2, 1 + 2 + 2},
      // x, a, r
      {Where::between, 1 + 6, 1, 1 + 6, 1},
      {Where::at_the_end, 1, 1, 1, 1},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(static_cast<int>(c.where));
    const Story s = two_calls(c.where);
    const Effects e(s);
    EXPECT_EQ(e.step().peak(), std::max((c.plain + 16) * KiB, 13 * KiB));
    EXPECT_EQ(e.peak_with({"net.a"}), (c.with_a + 16) * KiB);
    EXPECT_EQ(e.peak_with({"net.b"}), (c.with_b + 16) * KiB);
    EXPECT_EQ(e.peak_with({"net.a", "net.b"}), (c.with_both + 16) * KiB);
    EXPECT_EQ(e.peak_with({"net.b", "net.a"}), (c.with_both + 16) * KiB);
  }
}

// The first of two neighbours runs again last.
TEST(RecordedEffects, AnInputOfTwoCallsStaysForBoth) {
  Story s;
  s.by(Phase::setup, "").alloc('x', 8);
  s.by(Phase::forward, "").begin_step();
  for (const char* block : {"a", "b"}) {
    s.by(Phase::forward, (std::string("net.") + block).c_str()).argument('x');
    s.alloc(*block, 4), s.hold(*block);
    s.alloc(*block == 'a' ? 'A' : 'B', 1), s.result(*block == 'a' ? 'A' : 'B');
  }
  s.by(Phase::forward, "loss").free('x');
  s.by(Phase::backward, "loss").wait();
  s.by(Phase::backward, "net.b").drop('b'), s.free('b');
  s.by(Phase::backward, "loss").alloc('l', 32), s.free('l');
  s.by(Phase::backward, "loss").wait();
  s.by(Phase::backward, "net.a").drop('a'), s.free('a');
  s.end_step();
  const Effects e(s);
  EXPECT_EQ(e.step().peak(), (4 + 1 + 1 + 32) * KiB);
  EXPECT_EQ(e.peak_with({"net.b"}), (4 + 1 + 1 + 32) * KiB);
  EXPECT_EQ(e.peak_with({"net.a"}), (8 + 1 + 1 + 32) * KiB) << "x in place of a";
  EXPECT_EQ(e.peak_with({"net.a", "net.b"}), (8 + 1 + 1 + 32) * KiB);
  EXPECT_EQ(e.peak_with({"net.b", "net.a"}), (8 + 1 + 1 + 32) * KiB);
}

// Its first backward needs a, and only the second is sure to free the result r.
TEST(RecordedEffects, AResultIsThereTwiceUntilTheBackwardThatFreesIt) {
  OneCall c;
  c.forward = [](Story& s) { s.alloc('r', 2), s.hold('r'); };
  c.between = [](Story& s) {
    s.by(Phase::forward, "net").result('r', 1);
    s.by(Phase::forward, "loss").wait();
  };
  c.end = [](Story& s) {
    s.drop('a'), s.free('a');
    s.by(Phase::forward, "loss").alloc('l', 32), s.free('l');
    s.by(Phase::backward, "net").drop('r'), s.free('r');
  };
  const Effects e = c.effects();
  EXPECT_EQ(e.step().peak(), (1 + 1 + 2 + 32) * KiB);
  EXPECT_EQ(e.peak_with({"net"}), (1 + 1 + 2 + 2 + 32) * KiB);
}

}  // namespace
}  // namespace bytetape::memory
