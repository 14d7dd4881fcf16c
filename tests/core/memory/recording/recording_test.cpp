#include "bytetape/core/memory/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/error.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/resident.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/predict.h"
#include "bytetape/core/memory/recording/memlog.h"
#include "bytetape/core/memory/replay.h"
#include "bytetape/core/memory/snapshot_of.h"
#include "bytetape/core/memory/stats.h"
#include "bytetape/core/memory/step.h"
#include "tests/support/expect.h"
#include "tests/support/file_limits.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

class Recordings : public ::testing::Test {
 protected:
  std::string path() const { return dir_ / "run.memlog"; }
  std::string bytes() const { return test::content_of(path()); }

 private:
  test::TemporaryDir dir_;
};

Log read(const std::string& bytes) { return read_log(*memory_input(std::as_bytes(std::span(bytes)), "run.memlog")); }

/// Steps that allocate in different roles and modules, on the meta device.
void steps(int n) {
  for (int i = 1; i <= n; ++i) {
    const Step step(Device::meta());
    const ModuleScope module(intern("net.layer" + std::to_string(i % 3)));
    const Tensor x = empty({i, 256}, DType::f32, Device::meta(), Role::input);
    const Tensor y = empty({64, i}, DType::f32, Device::meta());
  }
}

const DeviceLog& meta(const Log& log) {
  for (const DeviceLog& d : log.devices)
    if (d.name == "meta") return d;
  throw std::runtime_error("no meta device in the log");
}

/// With the log's numbers of names, the process's.
Event as_in_process(Event e, const Log& log) {
  for (NameId* name : {&e.module, &e.old_module, &e.op}) *name = intern(log.names[*name]);
  return e;
}

TEST_F(Recordings, HaveTheEventsOfTheLedger) {
  Allocator& a = allocator(Device::meta());
  const Tensor held = empty({1000}, DType::f32, Device::meta());
  a.reset_log();
  Recording recording(path(), "a test");
  const std::size_t found = 2;  // a segment and what is held of it
  steps(2000);
  a.record_to(nullptr);
  const std::vector<Event> events = a.snapshot().events;
  recording.finish();

  const Log log = read_log(path());
  EXPECT_TRUE(log.complete);
  EXPECT_EQ(log.program, "a test");
  const std::vector<Record>& records = meta(log).records;
  ASSERT_GE(records.size(), events.size() + found);
  const std::size_t before = records.size() - events.size();
  for (std::size_t i = 0; i < events.size(); ++i)
    ASSERT_EQ(as_in_process(records[before + i].event, log), events[i]) << i;
  EXPECT_TRUE(
      std::is_sorted(records.begin(), records.end(), [](const Record& x, const Record& y) { return x.time < y.time; }));
}

TEST_F(Recordings, BeginWithWhatIsHeld) {
  const Tensor x = empty({1000}, DType::f32, Device::meta()), gone = empty({5}, DType::f32, Device::meta()),
               y = empty({3 << 20}, DType::f32, Device::meta(), Role::optimizer_state);
  Recording(path()).finish();
  Replay replay;
  const Log log = read_log(path());
  for (const Record& r : meta(log).records) replay.apply(r.event);
  const Statistics s = stats(Device::meta());
  EXPECT_EQ(replay.allocated(), s.allocated.current);
  EXPECT_EQ(replay.requested(), s.requested.current);
  EXPECT_EQ(replay.reserved(), s.reserved.current);
  ASSERT_TRUE(meta(log).end);
  EXPECT_EQ(meta(log).end->allocated.current, s.allocated.current);
  EXPECT_EQ(meta(log).end->allocated.peak, s.allocated.peak);
  EXPECT_EQ(meta(log).end->by_role[3].current, s.by_role[3].current);
}

TEST_F(Recordings, ThatBreakOffAreReadAsFarAsTheyGo) {
  {
    Recording recording(path());
    for (int i = 0; i < 5; ++i) {
      steps(40);
      recording.flush();
    }
  }
  const std::string whole = bytes();
  const std::vector<Record> all = meta(read(whole)).records;
  std::size_t most = 0;
  for (std::size_t n = sizeof(memlog_first_line) - 1; n < whole.size(); n += 7) {
    const Log log = read(whole.substr(0, n));
    EXPECT_FALSE(log.complete);
    if (log.devices.empty()) continue;
    const auto at = std::find_if(log.devices.begin(), log.devices.end(), [](auto& d) { return d.name == "meta"; });
    if (at == log.devices.end()) continue;
    ASSERT_LE(at->records.size(), all.size());
    ASSERT_GE(at->records.size(), most);
    most = at->records.size();
    for (std::size_t i = 0; i < most; ++i) ASSERT_EQ(at->records[i].event, all[i].event);
  }
  EXPECT_GT(most, all.size() / 2);
}

TEST_F(Recordings, MayHaveZerosBehindWhatWasWrittenLast) {
  Recording recording(path());
  steps(10);
  recording.flush();
  const std::string so_far = bytes();
  const Log log = read(so_far + std::string(4096, '\0'));
  EXPECT_FALSE(log.complete);
  EXPECT_GT(meta(log).records.size(), 0u);
  EXPECT_EQ(meta(log).records.size(), meta(read(so_far)).records.size());
}

TEST_F(Recordings, AreReadBeforeTheirEndWithWhatIsUsedOutside) {
  allocator(Device::cpu());
  const Recording recording(path());
  const Log log = log_so_far();
  const auto cpu = std::find_if(log.devices.begin(), log.devices.end(), [](auto& d) { return d.name == "cpu"; });
  ASSERT_NE(cpu, log.devices.end());
  EXPECT_EQ(cpu->outside.has_value(), resident_bytes().has_value());
  EXPECT_TRUE(log.complete) << "it goes on, and nothing broke off";
}

/// Where the chunks of a recording begin, and where the last ends.
std::vector<std::size_t> chunks_of(const std::string& bytes) {
  std::vector<std::size_t> places{sizeof(memlog_first_line) - 1};
  while (places.back() < bytes.size()) {
    ChunkHeader h{};
    std::memcpy(&h, &bytes[places.back()], sizeof h);
    places.push_back(places.back() + sizeof h + h.packed);
  }
  return places;
}

TEST_F(Recordings, ThatAreDamagedAreReadUpToThere) {
  {
    Recording recording(path());
    for (int i = 0; i < 5; ++i) {
      steps(10);
      recording.flush();
    }
  }
  const std::string whole = bytes();
  const Log all = read(whole);
  EXPECT_EQ(all.damage, "");
  const std::vector<std::size_t> chunks = chunks_of(whole);
  ASSERT_GT(chunks.size(), 10u);
  int damages = 0;
  for (std::size_t i = chunks[1]; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    const std::size_t chunk = *std::prev(std::upper_bound(chunks.begin(), chunks.end(), i));
    const Log log = read(damaged), before = read(whole.substr(0, chunk));
    ASSERT_FALSE(log.complete) << "byte " << i;
    ASSERT_EQ(log.devices.size(), before.devices.size());
    for (std::size_t d = 0; d < log.devices.size(); ++d)
      ASSERT_EQ(log.devices[d].records.size(), before.devices[d].records.size()) << "byte " << i;
    ASSERT_EQ(log.marks.size(), before.marks.size());
    ASSERT_EQ(log.names, before.names);
    if (log.damage.empty()) continue;  // a length that goes past the end: it breaks off
    EXPECT_THAT(log.damage, ::testing::HasSubstr("run.memlog: at byte " + std::to_string(chunk) + ": "));
    ++damages;
  }
  EXPECT_GT(damages, static_cast<int>(whole.size() / 2));
}

TEST_F(Recordings, ThatAreDamagedInTheirFirstChunkAreRefused) {
  Recording(path(), "a test").finish();
  const std::string whole = bytes();
  const std::size_t second = chunks_of(whole)[1];
  int refused = 0;
  for (std::size_t i = 0; i < second; ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    try {
      EXPECT_TRUE(read(damaged).devices.empty()) << "byte " << i;  // a length that goes past the end: it breaks off
    } catch (const FileError& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("run.memlog: at byte "));
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(second / 2));
  EXPECT_THROWS_SAYING(read("nothing of the kind"), FileError, "run.memlog: at byte 0: expected a memory recording");
}

/// A recording of one device and two names, with one more chunk, of which a byte is `value`.
Log read_chunk(char kind, std::string bytes, std::size_t at, char value) {
  bytes[at] = value;
  return read(memlog_first_line + packed_chunk('P', R"({"program":"a"})") +
              packed_chunk('D', R"({"name":"cpu","capacity":null,"limit":null})") +
              packed_chunk('N', std::string("net\0relu\0", 9)) + packed_chunk(kind, bytes));
}

// Bytes with the right sum that no writer writes.
TEST_F(Recordings, AreReadUpToWhatNoRecordOrMarkHolds) {
  const std::string record(4 + 72, '\0'), mark(19, '\0');  // a record is behind its device's number
  EXPECT_EQ(read_chunk('R', record, 4, 0).devices.at(0).records.size(), 1u);
  EXPECT_EQ(read_chunk('M', mark, 0, 0).marks.size(), 1u);
  struct Case {
    char kind;
    std::size_t at;
    char most;  // that may be there
    std::string says;
  };
  const std::string roles = std::to_string(role_count), phases = std::to_string(phase_count);
  const Case cases[] = {
      {'R', 0, 0, "expected a device below 1, found 1"},
      {'R', 4, event_kind_count - 1, "an event of unknown kind " + std::to_string(event_kind_count)},
      {'R', 5, role_count - 1, "an unknown role: " + roles + " or 0"},
      {'R', 6, role_count - 1, "an unknown role: 0 or " + roles},
      {'R', 7, phase_count - 1, "the unknown phase " + phases},
      {'R', 40, 2, "expected a name below 3, found 3"},  // module, old module, op, by module, by op, what
      {'R', 44, 2, "expected a name below 3, found 3"},
      {'R', 48, 2, "expected a name below 3, found 3"},
      {'R', 52, 2, "expected a name below 3, found 3"},
      {'R', 56, 2, "expected a name below 3, found 3"},
      {'R', 60, 2, "expected a name below 3, found 3"},
      {'M', 0, 2, "a mark of unknown kind or phase: 3, 0"},
      {'M', 1, 1, "expected a mark that begins or ends"},
      {'M', 2, phase_count - 1, "a mark of unknown kind or phase: 0, " + phases},
      {'M', 3, 2, "expected a name below 3, found 3"}};
  for (const Case& c : cases) {
    const std::string& bytes = c.kind == 'R' ? record : mark;
    EXPECT_EQ(read_chunk(c.kind, bytes, c.at, c.most).damage, "") << c.kind << c.at;
    const Log log = read_chunk(c.kind, bytes, c.at, static_cast<char>(c.most + 1));
    EXPECT_THAT(log.damage, ::testing::HasSubstr(c.says)) << c.kind << c.at;
    EXPECT_TRUE(log.devices.at(0).records.empty() && log.marks.empty());
    EXPECT_EQ(log.names.size(), 3u) << "what comes before is there";
  }
}

TEST_F(Recordings, SayThatBytesFollowTheirEnd) {
  Recording(path()).finish();
  const Log log = read(bytes() + "more");
  EXPECT_TRUE(log.complete);
  EXPECT_THAT(log.damage, ::testing::HasSubstr("expected the end of the file after the recording"));
}

TEST_F(Recordings, AreWhatALogIsOfOnceTheyAreFinished) {
  allocator(Device::meta());
  {
    Recording recording(path(), "the first");
    steps(3);
    EXPECT_FALSE(log_so_far().from_ledgers);
  }
  Recording second(path() + "2", "the last");
  steps(40);
  second.finish();
  steps(1);  // which the ledgers have, and no recording
  const Log log = log_so_far();
  EXPECT_EQ(log.program, "the last");
  EXPECT_TRUE(log.complete);
  EXPECT_FALSE(log.from_ledgers);
  const Log read = read_log(path() + "2");
  ASSERT_EQ(meta(log).records.size(), meta(read).records.size());
  EXPECT_EQ(meta(log).records.back().time, meta(read).records.back().time);
  std::filesystem::remove(path() + "2");
  EXPECT_TRUE(log_so_far().from_ledgers) << "there is no other";
}

TEST_F(Recordings, AreFoundFromAnotherFolder) {
  allocator(Device::meta());
  const std::filesystem::path before = std::filesystem::current_path();
  const test::TemporaryDir elsewhere;
  std::filesystem::current_path(std::filesystem::path(path()).parent_path());
  Recording recording("relative.memlog", "a relative path");
  std::filesystem::current_path(std::filesystem::path(elsewhere / "x").parent_path());
  steps(2);
  EXPECT_NO_THROW(EXPECT_EQ(log_so_far().program, "a relative path"));
  EXPECT_EQ(recording_path(), "relative.memlog") << "as it was given";
  recording.finish();
  EXPECT_EQ(log_so_far().program, "a relative path");
  std::filesystem::current_path(before);
}

TEST_F(Recordings, ThatAreFinishedAreWhatALogIsOfBehindARecordedPredictionToo) {
  Recording recording(path(), "the run");
  steps(3);
  recording.finish();
  predict(Device::cpu(), [] { return [] { empty({64}); }; }, {.recording = path() + "2"});
  EXPECT_EQ(log_so_far().program, "the run");
}

TEST_F(Recordings, OfLedgersHaveNoOneWhoFreedOrKept) {
  const ModuleScope module(intern("a.module"));
  Event e{.bytes = 512, .requested = 4, .module = intern("a.module"), .op = intern("an op")};
  Snapshot s;
  const auto does = [&](EventKind kind) {
    e.kind = kind;
    s.events.push_back(e);
  };
  for (int k = 0; k < event_kind_count; ++k) does(static_cast<EventKind>(k));
  s.events[1].old_module = intern("the last name");
  const Log log = log_of({s}, "a test");
  EXPECT_TRUE(log.from_ledgers);
  using enum EventKind;
  const std::set<EventKind> of_their_thread{alloc, out_of_memory, to_device, to_host, wait};
  for (const Record& r : log.devices.at(0).records)
    EXPECT_EQ(log.names[r.by_module] + "/" + log.names[r.by_op],
              of_their_thread.contains(r.event.kind) ? "a.module/an op" : "/")
        << to_string(r.event.kind);
  EXPECT_EQ(log.names.at(log.devices[0].records[1].event.old_module), "the last name");
}

TEST_F(Recordings, HaveLimitsThatAreSetMeanwhile) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  Recording recording(path());
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(), Allocator::Mode::caching, "limited");
  a.set_limit(64 * mib);
  a.deallocate(a.allocate(1000, Role::input));
  a.set_limit(32 * mib);  // which gives back nothing
  a.deallocate(a.allocate(1000, Role::input));
  const auto limits_are = [&](const Log& log, std::size_t end) {
    const DeviceLog& d = log.devices.back();
    ASSERT_EQ(d.name, "limited");
    EXPECT_EQ(d.limit, std::numeric_limits<std::size_t>::max());
    ASSERT_GE(d.limits.size(), 2u);
    EXPECT_EQ(d.limits[0].from, 0u);
    EXPECT_EQ(d.limits[1].from, 3u) << "a segment, a block, its free";
    EXPECT_EQ(d.limit_at(2), 64 * mib);
    EXPECT_EQ(d.limit_at(3), 32 * mib);
    EXPECT_EQ(d.limit_at(d.records.size()), end);
    EXPECT_EQ(snapshot_of(log, d).limit, end);
  };
  limits_are(log_so_far(), 32 * mib);
  a.set_limit(std::numeric_limits<std::size_t>::max());
  recording.finish();
  limits_are(read_log(path()), std::numeric_limits<std::size_t>::max());
  a.set_limit(mib);
  EXPECT_EQ(read_log(path()).devices.back().limits.size(), 3u) << "it is finished";
}

TEST_F(Recordings, TakeLimitsFromThreadsWhileTheyBeginAndEnd) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(), Allocator::Mode::caching, "limited");
  std::atomic<bool> is_over = false;
  std::vector<std::thread> threads;
  for (std::size_t t = 1; t <= 3; ++t)
    threads.emplace_back([&, t] {
      for (; !is_over; std::this_thread::sleep_for(std::chrono::microseconds(100))) {
        a.set_limit((64 + t) * mib);
        a.deallocate(a.allocate(1000 * t, Role::input));
      }
    });
  for (int i = 0; i < 10; ++i) {
    Recording recording(path());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(log_so_far().damage, "");
    recording.finish();
    const Log log = read_log(path());
    EXPECT_TRUE(log.complete);
    const DeviceLog& d = log.devices.back();
    for (const NewLimit& l : d.limits) {
      ASSERT_GE(l.bytes, 65 * mib);
      ASSERT_LE(l.bytes, 67 * mib);
      ASSERT_LE(l.from, d.records.size());
    }
  }
  is_over = true;
  for (std::thread& t : threads) t.join();
}

TEST_F(Recordings, BeginWithTheLimitThatThePreviousOneSaw) {
  Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(), Allocator::Mode::caching, "limited");
  {
    Recording first(path());
    a.set_limit(4096);
  }
  Recording second(path());
  a.deallocate(a.allocate(1000, Role::input));
  second.finish();
  const Log log = read_log(path());
  const DeviceLog& d = log.devices.back();
  EXPECT_EQ(d.limit, 4096u);
  EXPECT_TRUE(d.limits.empty());
  EXPECT_EQ(snapshot_of(log, d).limit, 4096u);
}

TEST_F(Recordings, OfPredictionsHaveLimitsThatAreSetMeanwhile) {
  predict(Device::cpu(),
          [] {
            allocator(default_device()).set_limit(std::size_t{8} << 20);
            return [] { empty({64}); };
          },
          {.recording = path()});
  const Log log = read_log(path());
  const DeviceLog& d = log.devices.at(0);
  ASSERT_EQ(d.limits.size(), 1u);
  EXPECT_EQ(d.limits[0].bytes, std::size_t{8} << 20);
}

// Not after its first thread, whose name is the program's last, or "exe", or what it was set to.
TEST_F(Recordings, AreNamedAfterTheProgram) {
  std::array<char, 16> name{};
  prctl(PR_GET_NAME, name.data());
  prctl(PR_SET_NAME, "a thread");
  Recording(path()).finish();
  prctl(PR_SET_NAME, name.data());
  EXPECT_EQ(read_log(path()).program, "core_tests");
}

TEST_F(Recordings, RunOneAtATime) {
  EXPECT_EQ(recording_path(), "");
  Recording first(path());
  EXPECT_EQ(recording_path(), path());
  EXPECT_THROWS_SAYING(Recording second(path() + "2"), ValueError, "is already running: finish() it first");
  first.finish();
  first.finish();
  EXPECT_EQ(recording_path(), "");
  Recording(path()).finish();
}

TEST_F(Recordings, SayThatTheyCannotBeWritten) {
  EXPECT_THROWS_SAYING(Recording lost("/nowhere/run.memlog"), FileError, "/nowhere/run.memlog");
  EXPECT_THROWS_SAYING(Recording full("/dev/full"), FileError, "No space left");
  EXPECT_EQ(recording_path(), "");
  Recording recording(path());
  steps(10);
  recording.flush();
  const test::FileSizeLimit disk(10'000);
  steps(2000);
  EXPECT_THROWS_SAYING(recording.flush(), FileError, "File too large");
  EXPECT_THROWS_SAYING(recording.finish(), FileError, "File too large");
  EXPECT_FALSE(read_log(path()).complete) << "what came before is there";
  EXPECT_FALSE(meta(read_log(path())).records.empty());
}

TEST_F(Recordings, HaveDevicesThatCameLater) {
  Recording recording(path());
  {
    Allocator a(Device::meta(), std::make_unique<SimulatedUpstream>(std::size_t{1} << 30), Allocator::Mode::direct,
                "late");
    a.deallocate(a.allocate(1000, Role::input));
  }
  recording.finish();
  const Log log = read_log(path());
  const DeviceLog& late = log.devices.back();
  EXPECT_EQ(late.name, "late");
  EXPECT_EQ(late.capacity, std::size_t{1} << 30);
  ASSERT_EQ(late.records.size(), 4u);
  EXPECT_EQ(late.records[1].event.requested, 1000u);
  ASSERT_TRUE(late.end);
  EXPECT_EQ(late.end->allocated.peak, 1024u);
  EXPECT_FALSE(late.outside) << "a simulation has nothing";
}

TEST_F(Recordings, HaveWhatWasUsedOutsideTheLedger) {
  struct Shared final : SimulatedUpstream {
    explicit Shared(Outside outside) : told(outside) {}
    std::optional<Outside> outside() const override { return told; }
    Outside told;
  };
  const std::vector<Outside> all{{30'000, {}}, {40'000, 10'000}};
  Recording recording(path());
  for (const Outside& outside : all) {
    Allocator a(Device::meta(), std::make_unique<Shared>(outside), Allocator::Mode::direct, "late");
    a.deallocate(a.allocate(1000, Role::input));
  }
  recording.finish();
  const Log log = read_log(path());
  ASSERT_GE(log.devices.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(log.devices[log.devices.size() - all.size() + i].outside, all[i]);
}

}  // namespace
}  // namespace bytetape::memory
