#include "bytetape/core/memory/timeline.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/ledger/scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/replay.h"
#include "bytetape/core/write_file.h"

namespace bytetape::memory {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

/// Two steps with every kind of event.
Snapshot small_program(Allocator& a) {
  Block* weight;
  {
    const ModuleScope module(intern("net.fc1"));
    weight = a.allocate(4000, Role::temporary);
    a.retag(weight, Role::parameter);
  }
  a.set_limit(64 * MiB);
  for (int i = 0; i < 2; ++i) {
    a.begin_step();
    const ScopeGuard scope({intern("net.fc1"), intern("matmul"), Phase::forward});
    Block* y = a.allocate(3 * MiB + 1, Role::temporary);
    a.retag(y, Role::saved, intern("net"));
    const PhaseScope backward(Phase::backward);
    a.deallocate(y);
    a.end_step();
  }
  try {
    a.allocate(100 * MiB, Role::input);
  } catch (const OutOfMemory&) {}
  const Snapshot s = a.snapshot();
  a.deallocate(weight);
  return s;
}

Snapshot small_program() {
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>());
  return small_program(a);
}

std::string written(const Snapshot& s) {
  std::ostringstream out;
  write_timeline(s, out);
  return out.str();
}

TEST(Timeline, NamesTheLargestHolderFirst) {
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>());
  std::vector<Block*> blocks;
  const auto hold = [&](const char* module, std::size_t bytes, Role role) {
    const ModuleScope scope(intern(module));
    blocks.push_back(a.allocate(bytes, role));
  };
  hold("one", 5 * MiB, Role::parameter);
  hold("three", 3 * MiB, Role::parameter);
  hold("three", 4 * MiB, Role::gradient);
  const std::string text = written(a.snapshot());
  EXPECT_THAT(text, HasSubstr(R"("modules":{"three":{"gradient":4194304,"parameter":3145728},"one":)"));
  EXPECT_THAT(text, HasSubstr(R"("roles":{"parameter":8388608,"gradient":4194304})"));
  for (Block* b : blocks) a.deallocate(b);
}

TEST(Timeline, TakesNamesThatAreNoUtf8) {
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>());
  const ModuleScope scope(intern("caf\xe9"));
  Block* block = a.allocate(512, {});
  const json t = json::parse(written(a.snapshot()));
  EXPECT_EQ(t["held"]["modules"].begin().key(), "caf\ufffd");
  a.deallocate(block);
}

TEST(Timeline, HasALineForEachEventAndStep) {
  const Snapshot s = small_program();
  const std::string text = written(s);
  const std::size_t events = text.find("\"events\": ["), steps = text.find("\"steps\": [");
  EXPECT_EQ(std::count(text.begin() + static_cast<std::ptrdiff_t>(events), text.end(), '\n'),
            static_cast<std::ptrdiff_t>(s.events.size()) + 3);
  EXPECT_EQ(std::count(text.begin() + static_cast<std::ptrdiff_t>(steps),
                       text.begin() + static_cast<std::ptrdiff_t>(text.find("\"dropped_steps\"")), '\n'),
            static_cast<std::ptrdiff_t>(s.steps.size()) + 2);
}

TEST(Timeline, IsTheDocumentedJson) {
  const Snapshot s = small_program();
  const json t = json::parse(written(s));
  EXPECT_EQ(t["format"], "bytetape-timeline");
  EXPECT_EQ(t["version"], 1);
  EXPECT_EQ(t["device"], "meta");
  EXPECT_EQ(t["unit"], "bytes");
  EXPECT_TRUE(t["capacity"].is_null()) << "a simulation without bounds has no number";
  EXPECT_EQ(t["limit"], 64 * MiB);
  EXPECT_EQ(t["statistics"]["allocated"]["peak"], s.statistics.allocated.peak);
  EXPECT_EQ(t["statistics"]["requested"]["peak"], 4000 + 3 * MiB + 1);
  EXPECT_EQ(t["statistics"]["reserved"]["peak"], 22 * MiB);
  EXPECT_EQ(t["statistics"]["roles"]["saved for backward"]["peak"], 3 * MiB + 512);
  EXPECT_EQ(t["statistics"]["allocations"], 3);
  EXPECT_EQ(t["at_peak"]["step"], 1);
  EXPECT_EQ(t["at_peak"]["phase"], "forward");
  EXPECT_EQ(t["at_peak"]["roles"], (json{{"parameter", 4096}, {"saved for backward", 3 * MiB + 512}}));
  EXPECT_EQ(t["at_peak"]["modules"]["net"]["saved for backward"], 3 * MiB + 512);
  EXPECT_EQ(t["at_peak"]["modules"]["net.fc1"], (json{{"parameter", 4096}}));
  EXPECT_EQ(t["at_peak"]["ops"]["matmul"]["saved for backward"], 3 * MiB + 512);
  EXPECT_EQ(t["held"]["modules"], (json{{"net.fc1", {{"parameter", 4096}}}}));
  ASSERT_EQ(t["steps"].size(), 3u);
  EXPECT_EQ(t["steps"][0]["step"], 0);
  EXPECT_EQ(t["steps"][1]["phases"]["forward"], (json{{"rose", 3 * MiB + 512}, {"fell", 0}, {"peak", 3 * MiB + 4608}}));
  EXPECT_EQ(t["steps"][1]["phases"]["backward"]["fell"], 3 * MiB + 512);
  EXPECT_EQ(t["dropped_events"], 0);
  EXPECT_EQ(t["dropped_steps"], 0);
  EXPECT_EQ(t["names"], (json{"", "matmul", "net", "net.fc1"}));
}

/// An event from a row of the file, by the names of the columns.
Event event_of(const json& t, const json& row) {
  std::map<std::string, std::uint64_t> cell;
  for (std::size_t i = 0; i < row.size(); ++i) cell[t["columns"][i]] = row[i];
  const auto name = [&](const char* column) { return intern(t["names"][cell[column]].get<std::string>()); };
  return {.offset = cell["offset"],
          .bytes = cell["bytes"],
          .requested = cell["requested"],
          .segment = static_cast<std::uint32_t>(cell["segment"]),
          .step = static_cast<std::uint32_t>(cell["step"]),
          .module = name("module"),
          .op = name("op"),
          .kind = static_cast<EventKind>(cell["kind"]),
          .role = static_cast<Role>(cell["role"]),
          .old_role = static_cast<Role>(cell["old_role"]),
          .phase = static_cast<Phase>(cell["phase"]),
          .old_module = name("old_module")};
}

TEST(Timeline, EventsReadBackAreTheLog) {
  const Snapshot s = small_program();
  const json t = json::parse(written(s));
  ASSERT_EQ(t["events"].size(), s.events.size());
  Replay replay;
  for (std::size_t i = 0; i < s.events.size(); ++i) {
    const Event e = event_of(t, t["events"][i]);
    EXPECT_EQ(e, s.events[i]) << i;
    EXPECT_EQ(t["kinds"][static_cast<std::size_t>(e.kind)], to_string(e.kind));
    EXPECT_EQ(t["roles"][static_cast<std::size_t>(e.role)], to_string(e.role));
    EXPECT_EQ(t["phases"][static_cast<std::size_t>(e.phase)], to_string(e.phase));
    replay.apply(e);
  }
  EXPECT_EQ(replay.allocated(), t["statistics"]["allocated"]["current"]);
  EXPECT_EQ(replay.reserved(), t["statistics"]["reserved"]["current"]);
}

TEST(Timeline, EqualRunsWriteEqualBytes) {
  const std::string first = written(small_program());
  intern("aaa a name that another program left behind");
  EXPECT_EQ(first, written(small_program()));
}

TEST(Timeline, OfNothingIsWellFormed) {
  Allocator a(Device::cpu(), std::make_unique<HostUpstream>());
  const json t = json::parse(written(a.snapshot()));
  EXPECT_TRUE(t["events"].empty());
  EXPECT_TRUE(t["steps"].empty());
  EXPECT_EQ(t["names"], json{""});
  EXPECT_GT(t["capacity"], 0);
}

TEST(Timeline, EscapesNames) {
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>());
  const ModuleScope module(intern("a \"quoted\"\nname \\ é"));
  a.deallocate(a.allocate(1, Role::input));
  EXPECT_EQ(json::parse(written(a.snapshot()))["names"][1], "a \"quoted\"\nname \\ é");
}

class TimelineFile : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("bytetape_timeline_" + std::to_string(::getpid()));
  const std::string path = folder / "timeline.json";
  std::string content() const {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(TimelineFile, AppearsWholeAndAlone) {
  const Snapshot s = small_program();
  std::ofstream(path) << "an older one";
  write_timeline(s, path);
  EXPECT_EQ(content(), written(s));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1) << "no other file stays behind";
}

TEST_F(TimelineFile, FailureNamesThePathAndTheReason) {
  const std::string nowhere = folder / "missing" / "timeline.json";
  try {
    write_timeline(small_program(), nowhere);
    FAIL() << "written";
  } catch (const FileError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr(nowhere));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("No such file or directory"));
  }
}

TEST_F(TimelineFile, FailureLeavesNothingBehind) {
  std::filesystem::create_directory(path);  // cannot be replaced by a file
  EXPECT_THROW(write_timeline(small_program(), path), FileError);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST_F(TimelineFile, AnExceptionOfTheWriterLeavesNothingBehind) {
  EXPECT_THROW(write_file(path, "the file", [](std::ostream&) { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(Timeline, AFullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  std::ofstream full("/dev/full");
  write_timeline(small_program(), full);
  full.close();
  EXPECT_TRUE(full.fail());
}

}  // namespace
}  // namespace bytetape::memory
