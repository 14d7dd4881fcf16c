#include "bytetape/core/memory/advice.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/prediction/failed_requests.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

/// Keeps one result of `width` a layer.
struct Block : nn::Module {
  nn::Sequential layers;
  Block(std::int64_t width, int depth) : layers(nn::Linear(64, width)) {
    for (int i = 0; i < depth; ++i) {
      layers.push_back(nn::Tanh());
      layers.push_back(nn::Linear(width, i + 1 < depth ? width : 64));
    }
    register_module("layers", layers);
  }
  Tensor forward(const Tensor& x) override { return x + layers(x); }
};

struct Recorded {
  Log log;
  std::size_t peak;  // of the last step
};

nn::Sequential blocks() {
  return nn::Sequential(Block(128, 4), Block(128, 4), Block(128, 5), Block(128, 4), nn::Linear(64, 10));
}
/// Layers that take the activation behind them.
nn::Sequential activated() {
  nn::Sequential net;
  for (int i = 0; i < 4; ++i)
    net.push_back(nn::Linear(64, 512)).push_back(nn::ReLU()).push_back(nn::Tanh()).push_back(nn::Linear(512, 64));
  return net;
}

Recorded train(nn::Sequential net, const Shape& shape, const std::vector<std::string>& checkpointed) {
  const test::TemporaryDir dir;
  nn::checkpoint_modules(net, checkpointed);
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  Recording recording(dir / "run.memlog");
  for (int i = 0; i < 3; ++i) {
    const Step step;
    sgd.zero_grad();
    const Tensor x = randn(shape), y = randint(0, 10, shape[0]);
    cross_entropy(net(x), y).backward();
    sgd.step();
  }
  recording.finish();
  return {read_log(dir / "run.memlog"), snapshot(Device::cpu()).steps.back().peak};
}

Recorded train(const std::vector<std::string>& checkpointed) { return train(blocks(), {512, 64}, checkpointed); }

const DeviceLog& cpu(const Log& log) {
  return *std::find_if(log.devices.begin(), log.devices.end(), [](const DeviceLog& d) { return d.name == "cpu"; });
}

TEST(Advice, IsWhatACheckpointComesTo) {
  const Recorded plain = train({});
  const std::vector<Advice> all = advise(plain.log, cpu(plain.log));
  ASSERT_FALSE(all.empty());
  std::size_t sets = 0;
  for (const Advice& a : all) {
    SCOPED_TRACE(a.text());
    EXPECT_EQ(a.peak, plain.peak);
    const std::size_t measured = train(a.modules).peak;
    EXPECT_GE(a.peak_then, measured);
    EXPECT_LT(a.peak_then - measured, (plain.peak - measured) / 10);
    ASSERT_TRUE(a.forward_time.has_value());
    EXPECT_GT(*a.forward_time, 0);
    EXPECT_LT(*a.forward_time, 1);
    sets += a.modules.size() > 1;
  }
  EXPECT_EQ(sets, 1u);
  EXPECT_GE(all.front().modules.size(), 3u);  // which is the best
  for (const char* module : {"0 Block", "1 Block", "2 Block"})
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Advice& a) {
      return a.modules == std::vector<std::string>{module};
    })) << module;
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const Advice& a, const Advice& b) { return a.peak_then < b.peak_then; }));
}

TEST(Advice, OfAPredictionKnowsNoTime) {
  const test::TemporaryDir dir;
  const auto training = [] {
    return [net = blocks()]() mutable {
      const Step step;
      cross_entropy(net(randn({512, 64})), randint(0, 10, 512)).backward();
    };
  };
  predict(Device::cpu(), training, {.recording = dir / "predicted.memlog"});
  const Log log = read_log(dir / "predicted.memlog");
  const std::vector<Advice> all = advise(log, log.devices.at(0));
  ASSERT_FALSE(all.empty());
  for (const Advice& a : all) {
    EXPECT_FALSE(a.forward_time.has_value());
    EXPECT_TRUE(a.text().ends_with("%)")) << a.text();
  }
}

enum class Fails { in_forward, in_backward };

/// Runs a step whose forward or backward may reserve only `limit` bytes. The second part of the result is the
/// exception's missing bytes.
std::pair<Log, std::size_t> run_out_of_memory(const std::vector<std::string>& checkpointed, std::size_t limit,
                                              Fails fails = Fails::in_forward) {
  const test::TemporaryDir dir;
  empty_cache(Device::cpu());
  // In backward, the last block needs a wide gradient while it still holds its wide activation.
  nn::Sequential net = fails == Fails::in_forward ? blocks() : nn::Sequential(Block(1024, 1), Block(2048, 1));
  nn::checkpoint_modules(net, checkpointed);
  Recording recording(dir / "run.memlog");
  const std::size_t before = memory::allocator(Device::cpu()).limit();
  const auto limit_more = [&] {
    empty_cache(Device::cpu());
    set_limit(snapshot(Device::cpu()).statistics.reserved.current + limit, Device::cpu());
  };
  std::size_t missing = 0;
  try {
    const Step step;
    if (fails == Fails::in_forward) limit_more();
    const Tensor loss = sum(net(randn({4096, 64})));
    if (fails == Fails::in_backward) {
      limit_more();
      loss.backward();
    }
  } catch (const OutOfMemory& e) { missing = e.shortage().missing(); }
  set_limit(before, Device::cpu());
  recording.finish();
  return {read_log(dir / "run.memlog"), missing};
}

TEST(Advice, OfARunThatEndedOutOfMemoryIsForTheFailedRequest) {
  constexpr std::size_t limit = std::size_t{36} << 20, result_bytes = std::size_t{4096} * 128 * sizeof(float);
  const auto [log, missing] = run_out_of_memory({}, limit);
  ASSERT_GT(missing, 0u);
  EXPECT_TRUE(advise(log, cpu(log)).empty()) << "no step ran backward";
  const std::vector<std::string> texts = advice_texts(log);
  ASSERT_GE(texts.size(), 2u);
  EXPECT_THAT(texts[0], testing::StartsWith("cpu: checkpoint '2 Block': frees "));
  EXPECT_THAT(texts[0], testing::HasSubstr("before this request, which lacks " + format_bytes(missing)));
  EXPECT_THAT(texts[0], testing::HasSubstr("\nnn::checkpoint_modules(model, {\"2 Block\"});"));
  const Shortage s = failed_requests(cpu(log)).back().shortage;
  const std::size_t freed = 5 * result_bytes;  // what the Tanhs of the block saved
  EXPECT_THAT(texts[0], testing::HasSubstr("frees " + format_bytes(freed) + " before"));
  EXPECT_THAT(texts[0], testing::HasSubstr("; it then fits, and the step's peak is " +
                                           format_bytes(s.statistics.allocated.current - freed + s.needed()) +
                                           " or more, with a limit of " + format_bytes(s.limit) + "\n"));
  EXPECT_THAT(texts[1], testing::HasSubstr("nn::fit(Device::cpu(), "));
  EXPECT_EQ(run_out_of_memory({"2 Block"}, limit).second, 0u) << "as it advises";
}

TEST(Advice, FromAnEarlierStepIsComparedWithTheLimit) {
  const test::TemporaryDir dir;
  empty_cache(Device::cpu());
  nn::Sequential net = blocks();
  Recording recording(dir / "run.memlog");
  const std::size_t before = memory::allocator(Device::cpu()).limit();
  const auto train_step = [&](std::int64_t batch) {
    const Step step;
    cross_entropy(net(randn({batch, 64})), randint(0, 10, batch)).backward();
  };
  train_step(4096);
  set_limit(snapshot(Device::cpu()).statistics.allocated.peak, Device::cpu());
  EXPECT_THROW(train_step(8192), OutOfMemory);
  set_limit(before, Device::cpu());
  recording.finish();
  const Log log = read_log(dir / "run.memlog");
  const std::size_t limit = failed_requests(cpu(log)).back().shortage.limit;
  const std::vector<Advice> all = advise(log, cpu(log));
  ASSERT_FALSE(all.empty());
  EXPECT_LE(all[0].peak_then, limit);
  EXPECT_THAT(advice_texts(log), testing::Contains(testing::StartsWith(
                                     "cpu: " + all[0].text() + "; within the limit of " + format_bytes(limit) + "\n")));
}

const Record* failed_request(const Log& log) {
  const std::vector<Record>& records = cpu(log).records;
  const auto at = std::find_if(records.begin(), records.end(),
                               [](const Record& r) { return r.event.kind == EventKind::out_of_memory; });
  return at == records.end() ? nullptr : &*at;
}

TEST(Advice, OfARunThatEndedOutOfMemoryInBackwardIsForModulesBeforeTheirs) {
  const auto [log, missing] = run_out_of_memory({}, std::size_t{4} << 20, Fails::in_backward);
  const Record* failed = failed_request(log);
  ASSERT_TRUE(failed && failed->event.phase == Phase::backward);
  EXPECT_THAT(log.names[failed->event.module], testing::StartsWith("1 Block"));
  EXPECT_THAT(advice_texts(log).at(0), testing::StartsWith("cpu: checkpoint '0 Block': frees "))
      << "the larger '1 Block' runs backward, so a checkpoint would have made all again";
}

TEST(Advice, OfARunThatEndedOutOfMemorySaysWhyThereIsNone) {
  const auto [log, missing] = run_out_of_memory({}, std::size_t{4} << 20);  // in the first layer
  ASSERT_GT(missing, 0u);
  const std::vector<std::string> texts = advice_texts(log);
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_THAT(texts[0], testing::HasSubstr("\nconst nn::Fit fit = nn::fit(Device::cpu(), ")) << "code to copy is first";
  EXPECT_THAT(texts[1], testing::StartsWith("cpu: no checkpoint is advised: at the failed request"));
}

TEST(Advice, OfALayerGoesWithTheActivationThatItTakes) {
  const Shape shape{512, 64};
  const Recorded plain = train(activated(), shape, {});
  const std::vector<Advice> all = advise(plain.log, cpu(plain.log));
  ASSERT_FALSE(all.empty());
  for (const Advice& a : all) {
    SCOPED_TRACE(a.text());
    EXPECT_GE(a.peak_then, train(activated(), shape, a.modules).peak);
  }
}

/// A step of one module: its input, a block that two nodes keep, of which one is gone before backward, its result, and
/// a block outside.
Log log_with_a_node_that_goes_early(Phase phase_of_begin) {
  Log log{.names = {"", "net", "op"}};
  DeviceLog d{.name = "cpu"};
  const auto add = [&](EventKind kind, Phase phase, std::uint64_t offset, std::uint64_t bytes, NameId module) {
    Record r{.time = d.records.size(), .by_module = module, .by_op = 2};
    r.event.kind = kind, r.event.phase = phase, r.event.offset = offset, r.event.bytes = bytes;
    r.event.step = 1;
    d.records.push_back(r);
  };
  add(EventKind::alloc, Phase::setup, 8192, 512, 0);
  add(EventKind::step_begin, phase_of_begin, 0, 1, 1);
  add(EventKind::argument, Phase::forward, 8192, 512, 1);
  add(EventKind::alloc, Phase::forward, 0, 1024, 1);
  for (const EventKind kind : {EventKind::hold, EventKind::hold, EventKind::drop})
    add(kind, Phase::forward, 0, 1024, 1);
  add(EventKind::alloc, Phase::forward, 16384, 512, 1);
  add(EventKind::result, Phase::forward, 16384, 512, 1);
  add(EventKind::alloc, Phase::forward, 1024, 4096, 0);
  add(EventKind::free, Phase::backward, 1024, 4096, 0);
  add(EventKind::drop, Phase::backward, 0, 1024, 1);
  add(EventKind::free, Phase::backward, 0, 1024, 1);
  add(EventKind::step_end, Phase::setup, 0, 1, 0);
  log.devices.push_back(d);
  return log;
}

TEST(Advice, IsOfWhatBackwardLetsGo) {
  for (const Phase begin : {Phase::setup, Phase::forward, Phase::backward}) {
    const Log log = log_with_a_node_that_goes_early(begin);
    const std::vector<Advice> all = advise(log, log.devices[0]);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].modules, std::vector<std::string>{"net"});
    EXPECT_EQ(all[0].peak, 6144u);
    EXPECT_EQ(all[0].peak_then, 5120u);
  }
}

/// The log's records of its one device, changed, and a mark of the module that ran.
Log changed(void (*change)(std::vector<Record>&)) {
  Log log = log_with_a_node_that_goes_early(Phase::setup);
  change(log.devices[0].records);
  log.names.emplace_back("other");
  log.marks.push_back(
      {.time = log.devices[0].records[2].time, .name = 1, .kind = Mark::Kind::module, .phase = Phase::forward});
  return log;
}
std::size_t place_of(const std::vector<Record>& records, EventKind kind) {
  const auto is_it = [&](const Record& r) { return r.event.kind == kind; };
  return static_cast<std::size_t>(std::find_if(records.begin(), records.end(), is_it) - records.begin());
}

TEST(Advice, IsNoneOfCallsThatAreNotWholeOrOverlap) {
  const auto expect = [](const char* what, bool is_whole, void (*change)(std::vector<Record>&)) {
    SCOPED_TRACE(what);
    const Log log = changed(change);
    EXPECT_EQ(advise(log, log.devices[0]).empty(), !is_whole);
    const std::vector<std::string> why = why_not_advised(log, log.devices[0]);
    ASSERT_EQ(why.size(), is_whole ? 0u : 1u);
    if (is_whole) return;
    EXPECT_EQ(why[0],
              "no checkpoint is advised for net (1.00 KiB): its calls overlap, run backward, or have no input or no "
              "result on this device");
  };
  using Records = std::vector<Record>;
  expect("as it is", true, [](Records&) {});
  expect("another thread does something else", true, [](Records& all) {
    Record r = all[place_of(all, EventKind::hold)];
    r.event.kind = EventKind::wait, r.thread = 7, r.by_module = 0, r.event.phase = Phase::data;
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(place_of(all, EventKind::hold)), r);
  });
  expect("another thread runs the module", false, [](Records& all) {
    Record r = all[place_of(all, EventKind::hold)];
    r.event.kind = EventKind::wait, r.thread = 7;
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(place_of(all, EventKind::hold)), r);
  });
  expect("its thread runs another module", false, [](Records& all) {
    Record r = all[place_of(all, EventKind::hold)];
    r.event.kind = EventKind::wait, r.by_module = 3;
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(place_of(all, EventKind::hold)), r);
  });
  expect("its thread runs backward", false, [](Records& all) {
    Record r = all[place_of(all, EventKind::hold)];
    r.event.kind = EventKind::wait, r.event.phase = Phase::backward;
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(place_of(all, EventKind::hold)), r);
  });
  expect("it returns nothing", false,
         [](Records& all) { all.erase(all.begin() + static_cast<std::ptrdiff_t>(place_of(all, EventKind::result))); });
  expect("it gets nothing", false, [](Records& all) {
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(place_of(all, EventKind::argument)));
  });
  expect("it begins twice", false, [](Records& all) {
    const std::size_t at = place_of(all, EventKind::argument);
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), Record(all[at]));
  });
  expect("it gets two tensors", true, [](Records& all) {
    const std::size_t at = place_of(all, EventKind::argument);
    Record second = all[at];
    second.event.requested = 1;
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at) + 1, second);
  });
  expect("it returns two", true, [](Records& all) {
    const std::size_t at = place_of(all, EventKind::result);
    Record second = all[at];
    second.event.requested = 1;
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at) + 1, second);
  });
}

/// A step of "net", of which "net.fc" makes and keeps everything, in 30 of the 40 ns that forward takes.
Log log_of_a_module_within_another() {
  Log log = log_with_a_node_that_goes_early(Phase::setup);
  log.names.emplace_back("net.fc");
  std::vector<Record>& all = log.devices[0].records;
  for (Record& r : all) {
    r.time *= 10;
    if (r.by_module == 1 && r.event.kind != EventKind::step_begin) r.by_module = 3;
  }
  for (const EventKind kind : {EventKind::argument, EventKind::result}) {  // the outer call is around the inner one
    const std::size_t at = place_of(all, kind);
    Record outer = all[at];
    outer.by_module = 1;
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at) + (kind == EventKind::result), outer);
  }
  const auto mark = [&](NameId name, bool begins, std::uint64_t time) {
    log.marks.push_back(
        {.time = time, .name = name, .kind = Mark::Kind::module, .begins = begins, .phase = Phase::forward});
  };
  mark(1, true, 20), mark(3, true, 25), mark(3, false, 80), mark(1, false, 85);
  return log;
}

TEST(Advice, OfEqualPeaksBeginsWithWhatTakesLeastTime) {
  const Log log = log_of_a_module_within_another();
  const std::vector<Advice> all = advise(log, log.devices[0]);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].peak_then, all[1].peak_then);
  EXPECT_LT(all[0].forward_time, all[1].forward_time);
  EXPECT_EQ(all[0].modules, std::vector<std::string>{"net.fc"});
  EXPECT_EQ(all[1].modules, std::vector<std::string>{"net"});
}

TEST(Advice, ReadsWell) {
  const Advice a{{"net.layer1", "net.layer2"}, 1000 << 20, 588 << 20, 0.183, 12345678};
  EXPECT_EQ(a.text(),
            "checkpoint net.layer1, net.layer2: peak 1000 MiB \u2192 588 MiB (\u221241 %), +12.3 ms a step (18 % of "
            "forward)");
}

TEST(Advice, IsNoneWhereNoStepWentBackward) {
  const Log log{.devices = {DeviceLog{.name = "cpu"}}};
  EXPECT_TRUE(advise(log, log.devices[0]).empty());
}

}  // namespace
}  // namespace bytetape::memory
