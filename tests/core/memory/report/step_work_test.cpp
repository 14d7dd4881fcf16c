// The work of steps in times and exports, from a recording made by hand.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "bytetape/core/memory/export.h"
#include "bytetape/core/memory/report/scope_work.h"
#include "bytetape/core/memory/times.h"

namespace bytetape::memory {
namespace {

using testing::ElementsAre;

enum Name : NameId { none, net, conv, relu };
constexpr auto at(Precision p) { return static_cast<std::size_t>(p); }

Record step_mark(EventKind kind, std::uint32_t step, std::uint64_t time) {
  Record r{};
  r.event.kind = kind;
  r.event.step = step;
  r.time = time;
  r.thread = 1;
  return r;
}

/// Steps 1, 2 and 1 again. conv runs for 40 ns of each. Table 0 is of the first two steps, table 1 of the last.
Log counted_log() {
  Log log{.names = {"", "net", "conv", "relu"}, .devices = {{.name = "cpu"}}, .complete = true};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint32_t number = i == 1 ? 2 : 1;
    const std::uint64_t begin = 1000 * i;
    log.devices[0].records.push_back(step_mark(EventKind::step_begin, number, begin));
    log.devices[0].records.push_back(step_mark(EventKind::step_end, number, begin + 100));
    log.marks.push_back({begin + 10, 1, conv, Mark::Kind::op, true, Phase::setup});
    log.marks.push_back({begin + 50, 1, conv, Mark::Kind::op, false, Phase::setup});
    log.counted_steps.push_back({.time = begin + 90, .step = number, .table = i / 2});
  }
  log.work_counts = {
      {.table = 0, .op = conv, .phase = Phase::forward, .precision = Precision::f32, .flop = 400, .bytes = 30},
      {.table = 0, .op = conv, .phase = Phase::forward, .precision = Precision::bf16, .flop = 200, .bytes = 50},
      {.table = 0, .module = net, .op = relu, .phase = Phase::setup, .bytes = 8},
      {.table = 1, .op = conv, .phase = Phase::forward, .flop = 7, .bytes = 1}};
  return log;
}

Ceilings ceilings(const std::string& device) {
  Ceilings c{.device = device, .bytes_per_s = 1e9};  // a byte each nanosecond
  c.flop_per_s[at(Precision::f32)] = 1e10;
  c.flop_per_s[at(Precision::bf16)] = 2e10;
  return c;
}

const OpTime& row(const StepTime& step, NameId op) {
  const auto found = std::ranges::find(step.rows, op, &OpTime::op);
  EXPECT_NE(found, step.rows.end());
  return *found;
}

TEST(StepWork, IsThatOfTheStepsTable) {
  Log log = counted_log();
  log.ceilings = {ceilings("cpu")};
  const std::vector<StepTime> steps = step_times(log);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_TRUE(steps[0].is_counted && steps[1].is_counted && steps[2].is_counted);
  const OpTime& first = row(steps[0], conv);
  EXPECT_EQ(first.flop, 600u);
  EXPECT_EQ(first.bytes, 80u);
  EXPECT_EQ(first.time, 40u);
  EXPECT_DOUBLE_EQ(first.least_time.value(), 80) << "its bytes; its products take 40 + 10 ns";
  EXPECT_EQ(row(steps[2], conv).flop, 7u) << "the other step 1";
  EXPECT_EQ(row(steps[1], relu).phase, Phase::forward) << "a step's own phase is forward";
  EXPECT_EQ(row(steps[1], relu).time, 0u);
  EXPECT_EQ(steps[0].time_of_work(first), 40u);
}

TEST(StepWork, HasNoLeastTimeWithoutCeilings) {
  Log log = counted_log();
  EXPECT_FALSE(row(step_times(log).at(0), conv).least_time.has_value());
  log.ceilings = {ceilings("cpu")};
  log.ceilings[0].flop_per_s[at(Precision::bf16)] = 0;
  const StepTime step = step_times(log).at(0);
  EXPECT_FALSE(row(step, conv).least_time.has_value()) << "bf16 was not measured";
  EXPECT_DOUBLE_EQ(row(step, relu).least_time.value(), 8);
}

TEST(StepWork, OfAGpuHasNoTimeWithoutDeviceTimes) {
  Log log = counted_log();
  log.devices[0].name = "cuda:1";
  log.ceilings = {ceilings("cuda")};
  StepTime step = step_times(log).at(0);
  EXPECT_TRUE(step.has_gpu_work);
  EXPECT_EQ(step.time_of_work(row(step, conv)), 0u) << "the host only launched it";
  EXPECT_DOUBLE_EQ(row(step, conv).least_time.value(), 80);
  log.device_work = {{.begin = 20, .end = 140, .step = 1, .op = conv, .phase = Phase::forward}};
  step = step_times(log).at(0);
  EXPECT_EQ(step.time_of_work(row(step, conv)), 120u);
  EXPECT_EQ(row(step, conv).flop, 600u);
}

TEST(StepWork, OfStepsThatWereNotCountedIsUnknown) {
  Log log = counted_log();
  log.counted_steps.erase(log.counted_steps.begin() + 1);
  log.counted_steps[1].time = 5000;  // of no step
  const std::vector<StepTime> steps = step_times(log);
  EXPECT_TRUE(steps[0].is_counted);
  EXPECT_FALSE(steps[1].is_counted || steps[2].is_counted);
  EXPECT_EQ(row(steps[1], conv).flop, 0u);
  log.counted_steps[0].table = no_work;
  EXPECT_TRUE(step_times(log).at(0).is_counted) << "a step without work";
}

TEST(StepWork, HasAMeanOverTheStepsThatHaveIt) {
  Log log = counted_log();
  log.ceilings = {ceilings("cpu")};
  log.counted_steps.erase(log.counted_steps.begin() + 1);
  const StepTime mean = mean_of(step_times(log));
  EXPECT_TRUE(mean.is_counted);
  EXPECT_EQ(row(mean, conv).flop, (600u + 7u) / 2);
  EXPECT_EQ(row(mean, conv).time, 40u);
  EXPECT_DOUBLE_EQ(row(mean, conv).least_time.value(), (80 + 1) / 2.0);
  EXPECT_FALSE(mean_of({}).is_counted);
}

TEST(StepWork, HasAMeanOfManySteps) {
  StepTime step;
  step.is_counted = true;
  step.rows = {{.op = conv, .phase = Phase::forward, .flop = std::uint64_t{1} << 60}};
  const StepTime mean = mean_of(std::vector<StepTime>(100, step));
  EXPECT_EQ(row(mean, conv).flop, std::uint64_t{1} << 60);
}

TEST(StepWork, IsTheMeanOfTheStepsWithDeviceTimes) {
  StepTime small, large;
  small.is_counted = large.is_counted = true;
  small.rows = {{.op = conv, .phase = Phase::forward, .device_time = 0, .flop = 100}};
  large.rows = {{.op = conv, .phase = Phase::forward, .device_time = 50, .flop = 1000}};
  large.device = DeviceTime{0, 60, 50};
  const StepTime mean = mean_of({small, large});
  EXPECT_EQ(row(mean, conv).device_time, 50u);
  EXPECT_EQ(row(mean, conv).flop, 1000u);
}

TEST(StepWork, IsOfTheStepThatEndsNext) {
  Log log = counted_log();
  std::vector<Record>& records = log.devices[0].records;
  records.clear();
  const std::pair<std::uint64_t, std::uint32_t> begins[] = {{0, 1}, {10, 2}}, ends[] = {{60, 2}, {100, 1}};
  for (const auto& [time, thread] : begins)
    records.push_back(step_mark(EventKind::step_begin, 1, time)), records.back().thread = thread;
  for (const auto& [time, thread] : ends)
    records.push_back(step_mark(EventKind::step_end, 1, time)), records.back().thread = thread;
  log.counted_steps = {{.time = 55, .step = 1, .table = 1}, {.time = 95, .step = 1, .table = 0}};
  const std::vector<StepTime> steps = step_times(log);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(row(steps[0], conv).flop, 600u) << "the thread whose step ended last";
  EXPECT_EQ(row(steps[1], conv).flop, 7u);
}

TEST(StepWork, OfPredictionsIsKnownToo) {
  Log log = counted_log();
  log.devices[0].name = "meta:cuda:0";
  log.ceilings = {ceilings("cuda")};
  EXPECT_TRUE(step_times(log).empty());
  const std::vector<StepTime> steps = step_work(log);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[1].step, 2u);
  EXPECT_EQ(row(steps[1], conv).flop, 600u);
  EXPECT_DOUBLE_EQ(row(steps[1], conv).least_time.value(), 80);
}

TEST(StepWork, IsInTheColumnsOfTheReport) {
  Log log = counted_log();
  log.devices.push_back({.name = "cuda:0"});
  log.work_counts[2].device = 1;
  log.ceilings = {ceilings("cpu")};
  std::swap(log.counted_steps[0], log.counted_steps[1]);
  const ReportCounts counts(log);
  EXPECT_THAT(counts.table, ElementsAre(0, 0, 1));
  EXPECT_THAT(counts.op, ElementsAre(conv, relu, conv));
  EXPECT_THAT(counts.flop, ElementsAre(600, 0, 7));
  EXPECT_THAT(counts.bytes, ElementsAre(80, 8, 1));
  EXPECT_THAT(counts.least, ElementsAre(81, 0, 2)) << "0: not known";
  EXPECT_THAT(counts.is_gpus, ElementsAre(0, 1, 0));
  EXPECT_THAT(counts.steps.elapsed, ElementsAre(90, 1000, 1000));
  EXPECT_THAT(counts.steps.step, ElementsAre(1, 2, 1));
}

TEST(StepWork, IsExportedWithTimes) {
  Log log = counted_log();
  log.names[conv] = "conv, \"2d\"";
  log.ceilings = {ceilings("cpu")};
  log.counted_steps.pop_back();
  std::ostringstream out;
  write_times_csv(log, out);
  const std::string csv = out.str();
  EXPECT_TRUE(csv.starts_with("step,module,op,phase,calls,host_ns,device_ns,flop,bytes,least_ns\n"));
  EXPECT_THAT(csv, testing::HasSubstr("\n1,,\"conv, \"\"2d\"\"\",forward,1,40,,600,80,80\n"));
  EXPECT_THAT(csv, testing::HasSubstr("\n2,net,relu,forward,0,0,,0,8,8\n"));
  EXPECT_TRUE(csv.ends_with("\n1,,\"conv, \"\"2d\"\"\",forward,1,40,,,,\n")) << csv;
}

TEST(StepWork, IsAtTheEndOfStepsInAChromeTrace) {
  std::ostringstream out;
  write_chrome_trace(counted_log(), out);
  std::vector<std::string> found;
  const auto trace = nlohmann::json::parse(out.str());
  for (const auto& e : trace["traceEvents"])
    if (e.value("cat", "") == "step" && e.contains("args"))
      found.push_back(e["name"].get<std::string>() + " " + e["ph"].get<std::string>() + " " + e["args"].dump());
  EXPECT_THAT(found, ElementsAre(R"(step 1 e {"bytes":88,"flop":600})", R"(step 2 e {"bytes":88,"flop":600})",
                                 R"(step 1 e {"bytes":1,"flop":7})"));
}

TEST(StepWork, OfAStepThatWasNotCountedIsNotThatOfAnEarlierOne) {
  Log log = counted_log();
  log.counted_steps.pop_back();
  std::ostringstream out;
  write_chrome_trace(log, out);
  const std::string counted = "\"step 1\",\"args\"";
  EXPECT_NE(out.str().find(counted), std::string::npos);
  EXPECT_EQ(out.str().find(counted), out.str().rfind(counted));
}

}  // namespace
}  // namespace bytetape::memory
