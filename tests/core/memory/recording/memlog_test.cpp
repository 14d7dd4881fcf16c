// Recordings made of chunks by hand, among them those with the right sum that no writer writes.
#include "bytetape/core/memory/recording/memlog.h"

#include <gmock/gmock.h>

#include <cstring>
#include <span>
#include <tuple>

#include "bytetape/core/memory/ledger/names.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/recording/memlog_columns.h"
#include "bytetape/core/memory/report/statistics_json.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

using ::testing::HasSubstr;

Log read(const std::string& bytes) { return read_log(*memory_input(std::as_bytes(std::span(bytes)), "run.memlog")); }

/// A recording of one device, with one more chunk.
Log read_behind_a_device(const std::string& chunk) {
  return read(memlog_first_line + packed_chunk('P', R"({"program":"a"})") +
              packed_chunk('D', R"({"name":"cpu","capacity":null,"limit":null})") + chunk);
}

TEST(Memlog, IsReadUpToAFieldThatIsMissingOrOfAnotherType) {
  const std::string books = R"("statistics":)" + to_json(Statistics{});
  struct Case {
    char kind;
    std::string json, says;  // "" where it is sound
  };
  const Case cases[] = {{'P', R"({"program":"b"})", ""},
                        {'P', R"({"program":7})", "'program' of the right type"},
                        {'P', "{}", "'program' of the right type"},
                        {'P', "[]", "expected a JSON object"},
                        {'P', "{", "expected a JSON object"},
                        {'D', R"({"name":"b","capacity":1,"limit":null})", ""},
                        {'D', R"({"name":7,"capacity":1,"limit":1})", "'name' of the right type"},
                        {'D', R"({"capacity":1,"limit":1})", "'name' of the right type"},
                        {'D', R"({"name":"b","limit":1})", "'capacity' of the right type"},
                        {'D', R"({"name":"b","capacity":-1,"limit":1})", "'capacity' of the right type"},
                        {'D', R"({"name":"b","capacity":1})", "'limit' of the right type"},
                        {'D', R"({"name":"b","capacity":1,"limit":"1"})", "'limit' of the right type"},
                        {'L', R"({"device":0,"limit":null})", ""},
                        {'L', R"({"device":1,"limit":1})", "expected a device below 1, found 1"},
                        {'L', R"({"limit":1})", "'device' of the right type"},
                        {'L', R"({"device":0})", "'limit' of the right type"},
                        {'E', R"({"device":0,)" + books + "}", ""},
                        {'E', R"({"device":0,"outside":null,"others":null,)" + books + "}", ""},
                        {'E', R"({"device":0,"outside":"7",)" + books + "}", "'outside' of the right type"},
                        {'E', R"({"device":0,"outside":7,"others":"7",)" + books + "}", "'others' of the right type"},
                        {'E', R"({"device":1,)" + books + "}", "expected a device below 1, found 1"},
                        {'E', R"({"device":0})", "expected 'statistics', found none"},
                        {'E', R"({"device":0,"statistics":{}})", "expected memory statistics as JSON"}};
  for (const Case& c : cases)
    EXPECT_THAT(read_behind_a_device(packed_chunk(c.kind, c.json)).damage,
                c.says.empty() ? ::testing::Eq("") : ::testing::Matcher<std::string>(HasSubstr(c.says)))
        << c.kind << c.json;
}

TEST(Memlog, IsReadUpToJsonThatIsNestedTooDeeply) {
  const auto damage = [](std::size_t levels) {  // of them one is the object
    const std::string deep = std::string(levels - 1, '[') + std::string(levels - 1, ']');
    return read_behind_a_device(packed_chunk('E', R"({"device":0,"statistics":)" + deep + "}")).damage;
  };
  const auto refused = HasSubstr("expected JSON of at most 16 levels, found more");
  EXPECT_THAT(damage(16), testing::Not(refused));
  EXPECT_THAT(damage(17), refused);
  EXPECT_THAT(damage(std::size_t{1} << 20), refused);
}

TEST(Memlog, HasWhatIsUsedOutsideOnlyWhereItWasMeasured) {
  const auto outside = [](const std::string& fields) {
    return read_behind_a_device(
               packed_chunk('E', R"({"device":0,)" + fields + R"("statistics":)" + to_json(Statistics{}) + "}"))
        .devices.at(0)
        .outside;
  };
  EXPECT_EQ(outside(""), std::nullopt);
  EXPECT_EQ(outside(R"("others":5,)"), std::nullopt);
  EXPECT_EQ(outside(R"("outside":7,)"), (Outside{7, {}}));
  EXPECT_EQ(outside(R"("outside":7,"others":null,)"), (Outside{7, {}}));
  EXPECT_EQ(outside(R"("outside":7,"others":5,)"), (Outside{7, 5}));
}

// The writer divides what does not fit one chunk.
TEST(Memlog, HasAsManyMarksAsAreWritten) {
  const test::TemporaryDir dir;
  const std::string path = dir / "run.memlog";
  std::vector<Mark> marks;
  for (std::uint64_t i = 0; i < (1u << 17) + 10; ++i)
    marks.push_back({.time = 3 * i, .thread = static_cast<std::uint32_t>(i % 7), .begins = i % 2 == 0});
  LogWriter writer(path, "a");
  writer.marks(marks);
  writer.end();
  const Log log = read_log(path);
  EXPECT_EQ(log.damage, "");
  ASSERT_EQ(log.marks.size(), marks.size());
  for (std::size_t i = 0; i < marks.size(); ++i)
    ASSERT_TRUE(log.marks[i].time == marks[i].time && log.marks[i].thread == marks[i].thread &&
                log.marks[i].begins == marks[i].begins)
        << i;
}

std::vector<DeviceWork> some_work() {
  return {{.begin = 70, .end = 90, .bytes = 4096, .device = 0, .stream = 7, .step = 2, .kind = DeviceWork::Kind::fill},
          {.begin = 10,
           .end = 60,
           .device = 0,
           .stream = 13,
           .step = 1,
           .step_device = 1,
           .name = intern("gemm<float>"),
           .module = intern("net"),
           .op = intern("matmul"),
           .phase = Phase::backward}};
}

TEST(Memlog, HasDeviceWorkByItsBegin) {
  const test::TemporaryDir dir;
  const std::string path = dir / "run.memlog";
  LogWriter writer(path, "a");
  writer.device("cuda:0", 100, 100);
  writer.device("cpu", 100, 100);
  writer.device_work(some_work());
  writer.device_work({});
  writer.end();
  const Log log = read_log(path);
  EXPECT_EQ(log.damage, "");
  ASSERT_EQ(log.device_work.size(), 2u);
  const DeviceWork &kernel = log.device_work[0], &fill = log.device_work[1];
  EXPECT_EQ(log.names[kernel.name], "gemm<float>");
  EXPECT_EQ(log.names[kernel.module], "net");
  EXPECT_EQ(log.names[kernel.op], "matmul");
  EXPECT_EQ(kernel.phase, Phase::backward);
  EXPECT_EQ(std::tuple(kernel.begin, kernel.end, kernel.stream, kernel.step), std::tuple(10u, 60u, 13u, 1u));
  EXPECT_EQ(std::tuple(fill.begin, fill.end, fill.stream, fill.step), std::tuple(70u, 90u, 7u, 2u));
  EXPECT_EQ(kernel.step_device, 1u);
  EXPECT_EQ(fill.step_device, 0u);
  EXPECT_EQ(fill.kind, DeviceWork::Kind::fill);
  EXPECT_EQ(fill.bytes, 4096u);
  EXPECT_EQ(fill.name, 0u);
}

TEST(Memlog, IsReadUpToDamagedDeviceWork) {
  const auto damage = [](const auto& change) {
    DeviceWork w{.begin = 10, .end = 5};  // as stored: the second number is the duration
    change(w);
    std::string bytes;
    append_columns(std::vector<DeviceWork>{w}, bytes);
    EXPECT_EQ(bytes.size(), 54u);
    return read_behind_a_device(packed_chunk('K', bytes)).damage;
  };
  EXPECT_EQ(damage([](DeviceWork&) {}), "");
  EXPECT_THAT(damage([](DeviceWork& w) { w.device = 1; }), HasSubstr("expected a device below 1, found 1"));
  EXPECT_THAT(damage([](DeviceWork& w) { w.step_device = 1; }), HasSubstr("expected a device below 1, found 1"));
  EXPECT_THAT(damage([](DeviceWork& w) { w.kind = DeviceWork::Kind{5}; }), HasSubstr("device work of unknown kind"));
  EXPECT_THAT(damage([](DeviceWork& w) { w.phase = Phase{5}; }), HasSubstr("device work of unknown kind or phase"));
  EXPECT_THAT(damage([](DeviceWork& w) { w.end = ~std::uint64_t{0} - 2; }), HasSubstr("ends after its begin"));
  for (NameId DeviceWork::*name : {&DeviceWork::name, &DeviceWork::module, &DeviceWork::op})
    EXPECT_THAT(damage([&](DeviceWork& w) { w.*name = 1; }), HasSubstr("expected a name below 1, found 1"));
  EXPECT_THAT(read_behind_a_device(packed_chunk('K', std::string(51, '\0'))).damage,
              HasSubstr("expected whole rows of 54 bytes, found 51 bytes"));
  EXPECT_EQ(read_behind_a_device(packed_chunk('K', "")).damage, "") << "no work";
}

std::vector<WorkCount> some_counts(std::uint32_t table) {
  return {{.table = table,
           .device = 1,
           .module = intern("net"),
           .op = intern("matmul"),
           .launches = 3,
           .phase = Phase::backward,
           .precision = Precision::tf32,
           .flop = std::uint64_t{1} << 40,
           .bytes = 4096},
          {.table = table, .op = intern("relu"), .launches = 1, .bytes = 7}};
}

TEST(Memlog, HasTheWorkOfStepsAndCeilings) {
  const test::TemporaryDir dir;
  const std::string path = dir / "run.memlog";
  LogWriter writer(path, "a");
  writer.device("cpu", 100, 100);
  writer.device("cuda:0", 100, 100);
  Ceilings ceilings{.device = "cuda:0", .processor = "a GPU", .bytes_per_s = 3e12};
  ceilings.flop_per_s[static_cast<std::size_t>(Precision::bf16)] = 7.5e14;
  writer.ceilings(ceilings);
  writer.work_counts(some_counts(0));
  writer.work_counts(some_counts(1));
  writer.counted_steps(
      {{.time = 50, .step = 7, .step_device = 1, .table = 1}, {.time = 90, .step = 8, .table = no_work}});
  writer.end();
  const Log log = read_log(path);
  EXPECT_EQ(log.damage, "");
  ASSERT_EQ(log.work_counts.size(), 4u);
  const WorkCount& w = log.work_counts[2];
  EXPECT_EQ(log.names[w.module] + " " + log.names[w.op], "net matmul");
  EXPECT_EQ(std::tuple(w.table, w.device, w.launches, w.flop, w.bytes),
            std::tuple(1u, 1u, 3u, std::uint64_t{1} << 40, 4096u));
  EXPECT_EQ(std::tuple(w.phase, w.precision), std::tuple(Phase::backward, Precision::tf32));
  ASSERT_EQ(log.counted_steps.size(), 2u);
  const CountedStep &a = log.counted_steps[0], &b = log.counted_steps[1];
  EXPECT_EQ(std::tuple(a.time, a.step, a.step_device, a.table), std::tuple(50u, 7u, 1u, 1u));
  EXPECT_EQ(std::tuple(b.time, b.step, b.step_device, b.table), std::tuple(90u, 8u, 0u, no_work));
  ASSERT_EQ(log.ceilings.size(), 1u);
  EXPECT_EQ(log.ceilings[0].device + ", " + log.ceilings[0].processor, "cuda:0, a GPU");
  EXPECT_EQ(log.ceilings[0].bytes_per_s, 3e12);
  EXPECT_EQ(log.ceilings[0].flop_per_s, ceilings.flop_per_s);
}

TEST(Memlog, IsReadUpToDamagedWorkOfSteps) {
  const auto packed = []<class Row>(char kind, const std::vector<Row>& rows) {
    std::string bytes;
    append_columns(rows, bytes);
    EXPECT_EQ(bytes.size(), rows.size() * row_bytes<Row>());
    return packed_chunk(kind, bytes);
  };
  const auto damage = [&](const auto& change) {
    WorkCount w;
    change(w);
    return read_behind_a_device(packed('W', std::vector{w})).damage;
  };
  EXPECT_EQ(damage([](WorkCount&) {}), "");
  EXPECT_THAT(damage([](WorkCount& w) { w.table = 1; }), HasSubstr("expected work of table 0"));
  EXPECT_THAT(damage([](WorkCount& w) { w.device = 1; }), HasSubstr("expected a device below 1, found 1"));
  EXPECT_THAT(damage([](WorkCount& w) { w.module = 1; }), HasSubstr("expected a name below 1, found 1"));
  EXPECT_THAT(damage([](WorkCount& w) { w.op = 1; }), HasSubstr("expected a name below 1, found 1"));
  EXPECT_THAT(damage([](WorkCount& w) { w.phase = Phase{5}; }), HasSubstr("work of unknown phase or precision"));
  EXPECT_THAT(damage([](WorkCount& w) { w.precision = Precision{5}; }), HasSubstr("unknown phase or precision"));
  EXPECT_THAT(read_behind_a_device(packed_chunk('W', "short")).damage, HasSubstr("expected whole rows of 38 bytes"));
  const auto tables = [&](std::initializer_list<std::uint32_t> numbers) {
    std::vector<WorkCount> rows;
    for (const std::uint32_t number : numbers) rows.push_back({.table = number});
    return read_behind_a_device(packed('W', rows)).damage;
  };
  EXPECT_EQ(tables({0, 0, 1, 2, 2}), "");
  EXPECT_THAT(tables({0, 1, 0}), HasSubstr("expected work of table 2 or the one before, found table 0"));
  EXPECT_THAT(tables({0, 2}), HasSubstr("expected work of table 1 or the one before, found table 2"));

  const auto damaged_step = [&](CountedStep s) {
    return read_behind_a_device(packed('W', std::vector<WorkCount>(1)) + packed('S', std::vector{s})).damage;
  };
  EXPECT_EQ(damaged_step({}), "");
  EXPECT_EQ(damaged_step({.table = no_work}), "");
  EXPECT_THAT(damaged_step({.table = 1}), HasSubstr("expected a table of work below 1, found 1"));
  EXPECT_THAT(damaged_step({.step_device = 1}), HasSubstr("expected a device below 1, found 1"));
  EXPECT_THAT(read_behind_a_device(packed('S', std::vector<CountedStep>(1))).damage,
              HasSubstr("expected a table of work below 0, found 0"));
}

TEST(Memlog, IsReadUpToDamagedCeilings) {
  const auto damage = [](const std::string& json) { return read_behind_a_device(packed_chunk('C', json)).damage; };
  EXPECT_EQ(damage(R"({"device":"cpu","processor":"","bytes_per_s":1e9,"flop_per_s":{}})"), "");
  EXPECT_THAT(damage(R"({"device":"cpu","processor":"","bytes_per_s":0,"flop_per_s":{}})"),
              HasSubstr("expected a positive 'bytes_per_s', found 0"));
  EXPECT_THAT(damage(R"({"device":"cpu","processor":"","bytes_per_s":1e9,"flop_per_s":{"f32":-1}})"),
              HasSubstr("expected a positive 'f32', found -1"));
  EXPECT_THAT(damage(R"({"device":"cpu","processor":"","bytes_per_s":1e9})"), HasSubstr("an object as 'flop_per_s'"));
  EXPECT_THAT(damage(R"({"device":7,"processor":"","bytes_per_s":1e9,"flop_per_s":{}})"),
              HasSubstr("expected a text as 'device'"));
  EXPECT_THAT(damage(R"({"processor":"","device":"cpu","flop_per_s":{}})"), HasSubstr("a number as 'bytes_per_s'"));
}

TEST(Memlog, IsReadUpToAChunkOfAnotherLength) {
  const std::string chunk = packed_chunk('N', std::string("net\0relu\0", 9));
  const auto damage = [&](auto change) {
    ChunkHeader h{};
    std::memcpy(&h, chunk.data(), sizeof h);
    change(h);
    std::string changed = chunk;
    std::memcpy(changed.data(), &h, sizeof h);
    const Log log = read_behind_a_device(changed);
    EXPECT_EQ(log.devices.size(), 1u) << "what comes before is there";
    return log.damage;
  };
  constexpr std::uint32_t most = 1u << 26;
  EXPECT_EQ(damage([](ChunkHeader&) {}), "");
  EXPECT_THAT(damage([](ChunkHeader& h) { h.unpacked -= 1; }), HasSubstr("a chunk cannot be unpacked"));
  EXPECT_THAT(damage([](ChunkHeader& h) { h.unpacked += 1; }), HasSubstr("a chunk cannot be unpacked"));
  EXPECT_THAT(damage([](ChunkHeader& h) { h.unpacked = most; }), HasSubstr("a chunk cannot be unpacked"));
  EXPECT_THAT(damage([](ChunkHeader& h) { h.unpacked = most + 1; }),
              HasSubstr("expected a chunk of at most 67108864 bytes"));
  EXPECT_EQ(damage([](ChunkHeader& h) { h.packed = most; }), "") << "it breaks off";
  EXPECT_THAT(damage([](ChunkHeader& h) { h.packed = most + 1; }),
              HasSubstr("expected a chunk of at most 67108864 bytes"));
  for (const int i : {0, 1, 2})
    EXPECT_THAT(damage([i](ChunkHeader& h) { h.zeros[i] = 1; }), HasSubstr("expected the start of a chunk"));
  EXPECT_THAT(damage([](ChunkHeader& h) { h.kind = 'X'; }), HasSubstr("a chunk of unknown kind 88"));
  for (const std::string& names : {std::string(), std::string("net")})
    EXPECT_THAT(read_behind_a_device(packed_chunk('N', names)).damage,
                HasSubstr("expected a zero byte after the last name"));
  EXPECT_EQ(read_behind_a_device(packed_chunk('R', std::string(4, '\0'))).damage, "") << "no records";
  EXPECT_THAT(read_behind_a_device(packed_chunk('R', "123")).damage,
              HasSubstr("expected records with a device number, found 3 bytes"));
  EXPECT_THAT(read_behind_a_device(packed_chunk('R', std::string(4 + 71, '\0'))).damage,
              HasSubstr("expected whole rows of 72 bytes, found 71 bytes"));
  EXPECT_THAT(read_behind_a_device(packed_chunk('M', std::string(20, '\0'))).damage,
              HasSubstr("expected whole rows of 19 bytes, found 20 bytes"));
}

TEST(Memlog, OfAnotherKindOrVersionIsRefused) {
  std::string line = memlog_first_line;
  line[line.size() - 2] = '2';
  EXPECT_THROWS_SAYING(read(line), FileError, "at byte 16: expected a recording of version 1, found another version");
  line[0] = 'B';
  EXPECT_THROWS_SAYING(read(line), FileError, "at byte 0: expected a memory recording");
}

}  // namespace
}  // namespace bytetape::memory
