#include "bytetape/core/memory/times.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <string>

#include "bytetape/bytetape.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

using Kind = Mark::Kind;

enum Name : NameId { none, net, net_a, relu, conv };

Record step_mark(EventKind kind, std::uint32_t step, std::uint64_t time, std::uint32_t thread = 1) {
  Record r{};
  r.event.kind = kind;
  r.event.step = step;
  r.time = time;
  r.thread = thread;
  return r;
}

Log log_of_steps(std::vector<Record> records, std::vector<Mark> marks) {
  return {.names = {"", "net", "net.a", "relu", "conv"},
          .devices = {{.name = "cpu", .records = std::move(records)}},
          .marks = std::move(marks),
          .complete = true};
}

std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> rows_of(const Log& log, const StepTime& step) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> rows;
  for (const OpTime& r : step.rows)
    rows[log.names[r.module] + "/" + log.names[r.op] + "/" + to_string(r.phase)] = {r.calls, r.time};
  return rows;
}

std::uint64_t sum_of(const StepTime& step) {
  return std::accumulate(step.rows.begin(), step.rows.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const OpTime& r) { return sum + r.time; });
}

using testing::Pair;
using testing::UnorderedElementsAre;

TEST(StepTimes, AreThoseOfTheInnermostScopes) {
  const Log log = log_of_steps({step_mark(EventKind::step_begin, 5, 100), step_mark(EventKind::step_end, 5, 1000)},
                               {{150, 1, net, Kind::module, true, Phase::setup},
                                {200, 1, relu, Kind::op, true, Phase::setup},
                                {260, 1, relu, Kind::op, false, Phase::setup},
                                {300, 1, net_a, Kind::module, true, Phase::setup},
                                {310, 1, conv, Kind::op, true, Phase::setup},
                                {350, 1, conv, Kind::op, false, Phase::setup},
                                {360, 1, net_a, Kind::module, false, Phase::setup},
                                {400, 1, relu, Kind::op, true, Phase::setup},
                                {405, 1, relu, Kind::op, false, Phase::setup},
                                {410, 1, net, Kind::module, false, Phase::setup},
                                {500, 1, none, Kind::phase, true, Phase::backward},
                                {600, 1, conv, Kind::op, true, Phase::backward},
                                {900, 1, conv, Kind::op, false, Phase::backward},
                                {950, 1, none, Kind::phase, false, Phase::backward}});
  const std::vector<StepTime> steps = step_times(log);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].step, 5u);
  EXPECT_EQ(steps[0].time(), 900u);
  EXPECT_EQ(sum_of(steps[0]), 900u);
  EXPECT_EQ(steps[0].rows.front().op, static_cast<NameId>(conv)) << "the most time first";
  EXPECT_THAT(rows_of(log, steps[0]),
              UnorderedElementsAre(Pair("//forward", Pair(0, 50 + 90 + 50)), Pair("net//forward", Pair(0, 135)),
                                   Pair("net/relu/forward", Pair(2, 65)), Pair("net.a//forward", Pair(0, 20)),
                                   Pair("net.a/conv/forward", Pair(1, 40)), Pair("//backward", Pair(0, 150)),
                                   Pair("/conv/backward", Pair(1, 300))));
}

TEST(StepTimes, AreOfTheThreadThatRanTheStep) {
  const Log log = log_of_steps(
      {step_mark(EventKind::step_begin, 1, 0, 1), step_mark(EventKind::step_begin, 2, 10, 2),
       step_mark(EventKind::step_end, 1, 100, 1), step_mark(EventKind::step_end, 2, 200, 2),
       step_mark(EventKind::step_begin, 3, 300, 1), step_mark(EventKind::step_end, 9, 350, 1)},  // neither is whole
      {{20, 1, conv, Kind::op, true, Phase::setup},
       {30, 2, relu, Kind::op, true, Phase::setup},
       {50, 1, conv, Kind::op, false, Phase::setup},
       {150, 2, relu, Kind::op, false, Phase::setup}});
  const std::vector<StepTime> steps = step_times(log);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_THAT(rows_of(log, steps[0]),
              UnorderedElementsAre(Pair("//forward", Pair(0, 70)), Pair("/conv/forward", Pair(1, 30))));
  EXPECT_THAT(rows_of(log, steps[1]),
              UnorderedElementsAre(Pair("//forward", Pair(0, 70)), Pair("/relu/forward", Pair(1, 120))));
}

TEST(StepTimes, OfAStepWithinOpenScopesBeginWithThem) {
  const Log log =
      log_of_steps({step_mark(EventKind::step_begin, 1, 100), step_mark(EventKind::step_end, 1, 200)},
                   {{50, 1, net, Kind::module, true, Phase::setup}, {300, 1, net, Kind::module, false, Phase::setup}});
  EXPECT_THAT(rows_of(log, step_times(log).at(0)), UnorderedElementsAre(Pair("net//forward", Pair(0, 100))));
}

TEST(StepTimes, OfNoMarksAreTheProgramsOwn) {
  Log log = log_of_steps({step_mark(EventKind::step_begin, 1, 100), step_mark(EventKind::step_end, 1, 200)}, {});
  EXPECT_THAT(rows_of(log, step_times(log).at(0)), UnorderedElementsAre(Pair("//forward", Pair(0, 100))));
  log.from_ledgers = true;
  EXPECT_TRUE(step_times(log).empty()) << "ledgers have no times";
  log.from_ledgers = false;
  log.devices[0].name = "meta:cuda";
  EXPECT_TRUE(step_times(log).empty()) << "a prediction computes nothing";
  EXPECT_TRUE(step_times({}).empty());
}

TEST(StepTimes, HaveAMean) {
  const StepTime a{.step = 4, .begin = 100, .end = 300, .rows = {{net, conv, Phase::forward, 2, 150}, {.time = 50}}};
  const StepTime b{.step = 5, .begin = 300, .end = 400, .rows = {{net, conv, Phase::forward, 2, 50}, {.time = 50}}};
  const StepTime mean = mean_of({a, b});
  EXPECT_EQ(mean.time(), 150u);
  ASSERT_EQ(mean.rows.size(), 2u);
  EXPECT_EQ(mean.rows[0].calls, 2u);
  EXPECT_EQ(mean.rows[0].time, 100u);
  EXPECT_EQ(mean.rows[1].time, 50u);
  EXPECT_EQ(mean_of({}).time(), 0u);
}

DeviceWork work(std::uint32_t step, NameId op, std::uint64_t begin, std::uint64_t end, std::uint32_t stream = 7,
                Phase phase = Phase::forward) {
  return {.begin = begin, .end = end, .stream = stream, .step = step, .module = net, .op = op, .phase = phase};
}

Log log_of_work(std::vector<DeviceWork> all) {
  Log log = log_of_steps({step_mark(EventKind::step_begin, 1, 100), step_mark(EventKind::step_end, 1, 200),
                          step_mark(EventKind::step_begin, 2, 300), step_mark(EventKind::step_end, 2, 400)},
                         {});
  log.device_work = std::move(all);
  return log;
}

std::map<std::string, std::uint64_t> device_rows(const Log& log, const StepTime& step) {
  std::map<std::string, std::uint64_t> rows;
  std::uint64_t sum = 0;
  for (const OpTime& r : step.rows) {
    sum += r.device_time;
    if (r.device_time) rows[log.names[r.op] + "/" + to_string(r.phase)] = r.device_time;
  }
  EXPECT_EQ(sum, step.device->busy);
  EXPECT_EQ(step.device->busy + step.device->idle(), step.device->span());
  EXPECT_EQ(sum_of(step), step.time()) << "rows of the device alone have no time of the host";
  return rows;
}

TEST(DeviceStepTimes, AreOfTheStepThatLaunchedThem) {
  const Log log = log_of_work({work(1, relu, 150, 170), work(1, conv, 180, 350),  // the second step has begun
                               work(9, conv, 150, 160)});
  const std::vector<StepTime> steps = step_times(log);
  EXPECT_THAT(device_rows(log, steps.at(0)), UnorderedElementsAre(Pair("relu/forward", 20), Pair("conv/forward", 170)));
  EXPECT_EQ(steps[0].device->begin, 150u);
  EXPECT_EQ(steps[0].device->end, 350u);
  EXPECT_EQ(steps[0].device->idle(), 10u);
  EXPECT_FALSE(steps[1].device.has_value());
}

TEST(DeviceStepTimes, CountOverlappingWorkOnceForTheFirst) {
  const Log log = log_of_work({work(1, relu, 120, 130, 8), work(1, conv, 110, 160, 7), work(1, relu, 150, 180, 8),
                               work(1, none, 180, 180, 9), work(1, relu, 200, 205, 8, Phase::backward)});
  const StepTime step = step_times(log).at(0);
  EXPECT_THAT(device_rows(log, step),
              UnorderedElementsAre(Pair("conv/forward", 50), Pair("relu/forward", 20), Pair("relu/backward", 5)));
  EXPECT_EQ(step.device->busy, 75u);
  EXPECT_EQ(step.device->idle(), 20u);
}

TEST(DeviceStepTimes, OfEqualNumbersAreThoseOfTheLastOneBegun) {
  Log log = log_of_work({work(1, relu, 150, 160), work(1, conv, 310, 330), work(1, conv, 90, 95)});
  for (Record& r : log.devices[0].records) r.event.step = 1;
  const std::vector<StepTime> steps = step_times(log);
  EXPECT_THAT(device_rows(log, steps.at(0)), UnorderedElementsAre(Pair("relu/forward", 10), Pair("conv/forward", 5)));
  EXPECT_THAT(device_rows(log, steps.at(1)), UnorderedElementsAre(Pair("conv/forward", 20)));
}

/// A recording of a CPU with three steps and a GPU with two, whose numbers overlap.
Log log_of_two_devices() {
  Log log = log_of_steps({step_mark(EventKind::step_begin, 1, 0), step_mark(EventKind::step_end, 1, 100),
                          step_mark(EventKind::step_begin, 2, 200), step_mark(EventKind::step_end, 2, 300),
                          step_mark(EventKind::step_begin, 3, 400), step_mark(EventKind::step_end, 3, 500)},
                         {});
  log.devices.push_back(
      {.name = "cuda:0",
       .records = {step_mark(EventKind::step_begin, 2, 10), step_mark(EventKind::step_end, 2, 90),
                   step_mark(EventKind::step_begin, 3, 210), step_mark(EventKind::step_end, 3, 290)}});
  return log;
}

TEST(DeviceStepTimes, AreOfTheDeviceThatNumberedTheStep) {
  Log log = log_of_two_devices();
  EXPECT_EQ(step_times(log).size(), 3u) << "the device with the most steps, if none has work";
  for (DeviceWork w : {work(2, relu, 20, 30), work(3, conv, 220, 250)}) {
    w.device = w.step_device = 1;
    log.device_work.push_back(w);
  }
  std::vector<StepTime> steps = step_times(log);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_THAT(device_rows(log, steps[0]), UnorderedElementsAre(Pair("relu/forward", 10)));
  EXPECT_THAT(device_rows(log, steps[1]), UnorderedElementsAre(Pair("conv/forward", 30)));
  EXPECT_EQ(steps[0].step_device, 1u);
  EXPECT_EQ(mean_of(steps).step_device, 1u);
  log.device_work.push_back(work(2, conv, 40, 50));  // of the CPU's step 2
  steps = step_times(log);
  ASSERT_EQ(steps.size(), 3u) << "the most steps, if both have work";
  EXPECT_THAT(device_rows(log, steps[1]), UnorderedElementsAre(Pair("conv/forward", 10)));
  EXPECT_FALSE(steps[2].device.has_value());
}

TEST(DeviceStepTimes, HaveAMeanOverTheStepsThatHaveThem) {
  const StepTime with{.step = 1,
                      .begin = 0,
                      .end = 100,
                      .rows = {{net, conv, Phase::forward, 1, 100, 60}},
                      .device = DeviceTime{50, 150, 60}};
  const StepTime without{
      .step = 2, .begin = 100, .end = 140, .rows = {{net, conv, Phase::forward, 1, 40}}, .device = {}};
  const StepTime mean = mean_of({with, without, with});
  EXPECT_EQ(mean.time(), 80u);
  EXPECT_EQ(mean.rows.at(0).device_time, 60u);
  ASSERT_TRUE(mean.device.has_value());
  EXPECT_EQ(mean.device->span(), 100u);
  EXPECT_EQ(mean.device->busy, 60u);
  EXPECT_FALSE(mean_of({without}).device.has_value());
}

TEST(StepTimes, OfARecordedStepAddUpToIt) {
  const test::TemporaryDir dir;
  nn::Sequential model{nn::Linear(64, 256), nn::ReLU(), nn::Linear(256, 8)};
  optim::SGD sgd(model.parameters(), {.lr = 0.1});
  Recording recording(dir / "run.memlog");
  for (int i = 0; i < 3; ++i) {
    const Step step;
    sgd.zero_grad();
    cross_entropy(model(randn({32, 64})), randint(0, 8, 32)).backward();
    sgd.step();
  }
  recording.finish();
  const Log log = read_log(dir / "run.memlog");
  const std::vector<StepTime> steps = step_times(log);
  ASSERT_EQ(steps.size(), 3u);
  for (const StepTime& step : steps) {
    EXPECT_EQ(sum_of(step), step.time());
    const auto rows = rows_of(log, step);
    EXPECT_EQ(rows.at("0 Linear/linear/forward").first, 1u);
    EXPECT_GT(rows.at("0 Linear/linear/forward").second, 0u);
    EXPECT_GT(rows.at("0 Linear/linear/backward").second, 0u);
    EXPECT_EQ(rows.at("/sgd/optimizer").first, 1u);
  }
}

}  // namespace
}  // namespace bytetape::memory
