#include "bytetape/core/memory/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/compare.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/report/pickle.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

using nlohmann::json;
using namespace std::string_literals;

Log recorded(const std::function<void(Allocator&)>& program) {
  const test::TemporaryDir dir;
  Recording recording(dir / "run.memlog", "a \"test\"");
  {
    Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(), Allocator::Mode::caching, "recorded");
    program(a);
  }
  recording.finish();
  Log log = read_log(dir / "run.memlog");
  log.devices = {log.devices.back()};
  return log;
}

/// Two blocks are saved in forward by an op of a module, and freed in backward.
void step(Allocator& a) {
  a.begin_step();
  const ModuleScope module(intern("net.\"one\",\xff"));
  Block* blocks[2];
  for (Block*& b : blocks) {
    const OpScope op(intern("conv2d"));
    const PhaseScope phase(Phase::forward);
    b = a.allocate(1000, Role::temporary);
    a.hold_saved(b);
  }
  for (Block* b : blocks) {
    const PhaseScope phase(Phase::backward);
    const OpScope op(intern("conv2d"));
    a.drop_saved(b, true);
    a.deallocate(b);
  }
  a.end_step();
}

template <class Write>
std::string text(const Write& write, const Log& log) {
  std::ostringstream out;
  write(log, out);
  return out.str();
}

TEST(ChromeTraces, NestSlicesAndCountBytes) {
  const Log log = recorded([](Allocator& a) { step(a), step(a); });
  const json trace = json::parse(text(write_chrome_trace, log));
  std::map<int, std::vector<std::string>> open;
  std::set<std::string> seen;
  json counters;
  for (const json& e : trace["traceEvents"]) {
    const std::string ph = e["ph"];
    if (ph == "C") counters[e["name"].get<std::string>()].push_back(e["args"]);
    if (ph == "B") seen.insert(open[e["tid"]].emplace_back(e["name"]));
    if (ph != "E") continue;
    ASSERT_FALSE(open[e["tid"]].empty());
    EXPECT_EQ(open[e["tid"]].back(), e["name"].get<std::string>());
    open[e["tid"]].pop_back();
  }
  for (const auto& [thread, names] : open) EXPECT_TRUE(names.empty());
  EXPECT_EQ(seen, (std::set<std::string>{"net.\"one\",\ufffd", "conv2d", "forward", "backward"}));
  ASSERT_EQ(counters["reserved"].size(), 2u);
  EXPECT_EQ(counters["reserved"][0]["bytes"], 2 << 20);
  EXPECT_EQ(counters["allocated"][3]["saved for backward"], 2048);
  EXPECT_EQ(counters["allocated"].back(), (json{{"saved for backward", 0}, {"output/temporary", 0}}));
}

TEST(ChromeTraces, PointFromSavingToBackward) {
  const Log log = recorded([](Allocator& a) { step(a); });
  const json trace = json::parse(text(write_chrome_trace, log));
  std::map<int, double> begins;
  int arrows = 0, steps = 0;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] == "s") begins[e["id"]] = e["ts"];
    if (e["ph"] == "f") {
      ASSERT_TRUE(begins.contains(e["id"]));
      EXPECT_LE(begins[e["id"]], e["ts"].get<double>());
      ++arrows;
    }
    if (e["ph"] == "b" || e["ph"] == "e") {
      EXPECT_EQ(e["name"], "step 1");
      ++steps;
    }
  }
  EXPECT_EQ(arrows, 2);
  EXPECT_EQ(steps, 2);
}

TEST(ChromeTraces, HaveATrackForEachStream) {
  Log log = recorded([](Allocator& a) { step(a); });
  log.names.insert(log.names.end(), {"gemm<\"f32\">", "matmul"});
  const auto op = static_cast<NameId>(log.names.size() - 1);
  log.device_work = {
      {.begin = 1500, .end = 2750, .stream = 7, .step = 1, .name = op - 1, .op = op},
      {.begin = 3000, .end = 3001, .bytes = 64, .stream = 13, .step = 1, .op = op, .kind = DeviceWork::Kind::to_host}};
  const json trace = json::parse(text(write_chrome_trace, log));
  std::vector<json> work, tracks;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] == "X") work.push_back(e);
    if (e["ph"] == "M" && e["pid"] == 2 && e["name"] == "thread_name") tracks.push_back(e);
  }
  ASSERT_EQ(tracks.size(), 2u);
  EXPECT_EQ(tracks[0]["args"]["name"], "stream 7");
  EXPECT_EQ(tracks[1]["args"]["name"], "stream 13");
  ASSERT_EQ(work.size(), 2u);
  EXPECT_EQ(work[0]["name"], "gemm<\"f32\">");
  EXPECT_EQ(work[0]["ts"], 1.5);
  EXPECT_EQ(work[0]["dur"], 1.25);
  EXPECT_EQ(work[0]["tid"], tracks[0]["tid"]);
  EXPECT_EQ(work[0]["args"], (json{{"op", "matmul"}, {"module", ""}, {"phase", "setup"}, {"step", 1}}));
  EXPECT_EQ(work[1]["name"], "copy to host");
  EXPECT_EQ(work[1]["args"]["bytes"], 64);
}

TEST(ChromeTraces, DoNotOverlapWorkOnATrack) {
  Log log = recorded([](Allocator& a) { step(a); });
  for (const auto& [begin, end] : {std::pair(10, 30), std::pair(20, 50), std::pair(30, 40), std::pair(45, 60)})
    log.device_work.push_back({.begin = static_cast<std::uint64_t>(begin), .end = static_cast<std::uint64_t>(end)});
  std::vector<int> tracks;
  const json trace = json::parse(text(write_chrome_trace, log));
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == "X") tracks.push_back(e["tid"]);
  EXPECT_EQ(tracks, (std::vector{1, 2, 1, 1}));
}

// A search through all tracks for each piece of work would take half a minute.
TEST(ChromeTraces, HaveATrackForEachPieceOfWorkThatOverlaps) {
  Log log = recorded([](Allocator& a) { step(a); });
  constexpr std::uint64_t many = 300'000;
  for (std::uint64_t i = 0; i < many; ++i) log.device_work.push_back({.begin = i, .end = i + many});
  const auto begin = std::chrono::steady_clock::now();
  const std::string trace = text(write_chrome_trace, log);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_NE(trace.find("\"tid\":" + std::to_string(many) + ","), std::string::npos);
}

TEST(ChromeTraces, LeaveOutWhatBeganBeforeThem) {
  Log log = recorded([](Allocator& a) { step(a); });
  log.marks.erase(log.marks.begin(), log.marks.begin() + 2);
  const json trace = json::parse(text(write_chrome_trace, log));
  int depth = 0;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] == "B") ++depth;
    if (e["ph"] == "E") --depth;
    EXPECT_GE(depth, 0);
  }
}

TEST(Csv, HasALineForEachRecord) {
  const Log log = recorded([](Allocator& a) { step(a); });
  std::istringstream lines(text(write_csv, log));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line.substr(0, 13), "device,event,");
  std::size_t n = 0;
  while (std::getline(lines, line)) {
    ASSERT_LT(n, log.devices[0].records.size());
    EXPECT_EQ(line.find("recorded," + std::to_string(n) + ","), 0u);
    const Event& e = log.devices[0].records[n++].event;
    EXPECT_NE(line.find(std::string(",") + to_string(e.kind) + ","), std::string::npos);
    const bool is_quoted = line.find("\"net.\"\"one\"\",\xef\xbf\xbd\"") != std::string::npos;
    EXPECT_TRUE(is_quoted || !e.module) << line;
  }
  EXPECT_EQ(n, log.devices[0].records.size());
}

TEST(Pickles, AreTheBytesThatPythonReads) {
  std::ostringstream out;
  PickleWriter p(out);
  p.begin_dict();
  p.key("a");
  p.begin_list();
  p.add(7);
  p.add("a");
  p.end_list();
  p.key("b");
  p.add(std::uint64_t{1} << 40);
  p.end_dict();
  p.finish();
  EXPECT_EQ(out.str(),
            "\x80\x02}("s                                             // protocol 2, a dict
            "X\x01\0\0\0ar\0\0\0\0"s                                  // "a", remembered as 0
            "](J\x07\0\0\0j\0\0\0\0e"s                                // [7, what 0 is]
            "X\x01\0\0\0br\x01\0\0\0\x8a\x08\0\0\0\0\0\x01\0\0u."s);  // "b": 2^40
}

// What was free as a request failed is told by the limit that held then.
TEST(TorchSnapshots, CountByTheLimitOfTheMoment) {
  const auto written = [](std::size_t limit, const std::vector<NewLimit>& limits) {
    Log log{.names = {""}, .complete = true};
    DeviceLog d{.name = "meta", .capacity = 1 << 30, .limit = limit, .limits = limits};
    Record failed{};
    failed.event.kind = EventKind::out_of_memory;
    d.records = {Record{}, failed};
    d.records[0].event.kind = EventKind::wait;
    log.devices.push_back(d);
    return text(write_torch_snapshot, log);
  };
  const std::string expected = written(4096, {});
  EXPECT_NE(written(8192, {}), expected);
  EXPECT_EQ(written(8192, {{1, 4096}}), expected);
  EXPECT_EQ(written(4096, {{2, 8192}}), expected);
}

TEST(TorchSnapshots, AreWrittenOfDamagedLogsToo) {
  Log log = recorded([](Allocator& a) { step(a); });
  auto& records = log.devices[0].records;
  while (!records.empty()) {
    records.erase(records.begin());
    EXPECT_EQ(text(write_torch_snapshot, log).back(), '.');
  }
}

TEST(Events, AreToldInWords) {
  const Log log = recorded([](Allocator& a) { step(a); });
  std::vector<Event> events;
  for (const Record& r : log.devices[0].records) events.push_back(r.event);
  for (Event& e : events) e.module = e.old_module = e.op = 0;
  EXPECT_EQ(first_difference(events, events), "");
  std::vector<Event> other = events;
  other[2].requested = 1001;
  const std::string difference = first_difference(events, other);
  EXPECT_NE(difference.find("event 2 of "), std::string::npos) << difference;
  EXPECT_NE(difference.find("1024 B (1001 requested) at 0+0"), std::string::npos) << difference;
  other = events;
  const auto segment = std::ranges::find(other, EventKind::segment_alloc, &Event::kind);
  ASSERT_NE(segment, other.end());
  segment->bytes += 512;
  EXPECT_EQ(describe(*segment), "segment_alloc " + std::to_string(segment->bytes) + " B, segment 0");
  EXPECT_NE(first_difference(events, other).find("\n  A: segment_alloc "), std::string::npos);
  EXPECT_NE(first_difference(events, other).find("\n  B: " + describe(*segment)), std::string::npos);
  other = {events.begin(), events.begin() + 1};
  EXPECT_NE(first_difference(events, other).find("(the second log ends)"), std::string::npos);
}

TEST(Events, OfEachKindAreToldInTheirWords) {
  Event e{.offset = 512, .bytes = 1024, .requested = 1000, .segment = 7, .step = 3, .module = intern("a.module")};
  e.op = intern("an op");
  e.old_module = intern("before");
  e.role = Role::saved;
  e.old_role = Role::gradient;
  e.phase = Phase::backward;
  const auto words = [&](EventKind kind) {
    e.kind = kind;
    return describe(e);
  };
  using enum EventKind;
  EXPECT_EQ(words(segment_alloc), "segment_alloc 1024 B, segment 7");
  EXPECT_EQ(words(segment_free), "segment_free 1024 B, segment 7");
  EXPECT_EQ(words(step_begin), "step_begin 1024");
  EXPECT_EQ(words(step_end), "step_end 1024");
  const std::string block = " 1024 B (1000 requested) at 7+512, ",
                    holder = "saved for backward of 'a.module' by an op, backward, step 3";
  EXPECT_EQ(words(alloc), "alloc" + block + holder);
  EXPECT_EQ(words(retag), "retag" + block + "gradient of 'before' -> " + holder);
}

TEST(Events, AreComparedWithTheirNamesOrWithout) {
  const Event e{.bytes = 512,
                .module = intern("a.module"),
                .op = intern("an op"),
                .kind = EventKind::retag,
                .old_module = intern("before")};
  const auto differ = [&](const Event& other, Names names) { return !first_difference({e}, {other}, names).empty(); };
  for (NameId Event::*name : {&Event::module, &Event::op, &Event::old_module}) {
    Event other = e;
    other.*name = intern("another");
    EXPECT_TRUE(differ(other, Names::compared));
    EXPECT_FALSE(differ(other, Names::ignored));
  }
  Event other = e;
  other.bytes = 1024;
  EXPECT_TRUE(differ(other, Names::ignored));
  EXPECT_NE(first_difference({}, {e}).find("(the first log ends)"), std::string::npos);
}

}  // namespace
}  // namespace bytetape::memory
