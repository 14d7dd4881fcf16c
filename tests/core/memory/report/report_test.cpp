#include "bytetape/core/memory/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <limits>
#include <sstream>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/report/report_columns.h"
#include "bytetape/core/memory/report/report_page.h"
#include "bytetape/core/memory/report/report_scopes.h"
#include "bytetape/core/memory/report/report_tables.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Record record(EventKind kind, std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes,
              std::uint64_t time = 0) {
  Record r{};
  r.event.kind = kind;
  r.event.segment = segment;
  r.event.offset = offset;
  r.event.bytes = bytes;
  r.event.requested = bytes;
  r.time = time;
  return r;
}

TEST(MemoryReport, TablesMatchEventsToTheirBlocks) {
  const ReportTables tables({record(EventKind::segment_alloc, 0, 0, 4096), record(EventKind::alloc, 0, 0, 512),
                             record(EventKind::alloc, 0, 512, 1024), record(EventKind::retag, 0, 0, 512),
                             record(EventKind::free, 0, 0, 512), record(EventKind::alloc, 0, 0, 512),
                             record(EventKind::hold, 0, 512, 1024), record(EventKind::free, 0, 0, 512)});
  EXPECT_THAT(tables.events.target, ElementsAre(0, 0, 0, 2, 2, 0, 2, 1)) << "blocks made since";
  EXPECT_THAT(tables.blocks.bytes, ElementsAre(512, 1024, 512));
  EXPECT_THAT(tables.blocks.offset, ElementsAre(0, 512, 0));
  EXPECT_EQ(tables.unmatched, 0u);
}

TEST(MemoryReport, TablesTellSegmentsOfOneNumberApart) {
  const ReportTables tables({record(EventKind::segment_alloc, 0, 0, 4096), record(EventKind::segment_free, 0, 0, 4096),
                             record(EventKind::segment_alloc, 0, 0, 8192), record(EventKind::alloc, 0, 0, 512),
                             record(EventKind::free, 0, 0, 512), record(EventKind::segment_free, 0, 0, 8192)});
  EXPECT_THAT(tables.segments.bytes, ElementsAre(4096, 8192));
  EXPECT_THAT(tables.events.target, ElementsAre(0, 0, 1, 0, 1, 1));
  EXPECT_THAT(tables.blocks.segment, ElementsAre(1));
}

TEST(MemoryReport, TablesCountWhatMeansNothingThatWasMade) {
  const ReportTables tables({record(EventKind::free, 0, 0, 512), record(EventKind::alloc, 0, 0, 512),
                             record(EventKind::segment_free, 3, 0, 4096), record(EventKind::wait, 0, 0, 0)});
  EXPECT_EQ(tables.unmatched, 3u);
  EXPECT_THAT(tables.events.kind, ElementsAre(static_cast<std::uint64_t>(EventKind::wait)));
}

TEST(MemoryReport, TablesLeaveOutWhatOnlyAdviceUses) {
  const ReportTables tables(
      {record(EventKind::argument, 0, 0, 512), record(EventKind::wait, 0, 0, 0), record(EventKind::result, 0, 0, 512)});
  EXPECT_EQ(tables.unmatched, 0u);
  EXPECT_THAT(tables.events.kind, ElementsAre(static_cast<std::uint64_t>(EventKind::wait)));
}

TEST(MemoryReport, TablesCountWhatComesBehindTheReturnOfItsSegment) {
  const ReportTables tables({record(EventKind::segment_alloc, 0, 0, 4096), record(EventKind::alloc, 0, 0, 512),
                             record(EventKind::segment_free, 0, 0, 4096), record(EventKind::retag, 0, 0, 512),
                             record(EventKind::alloc, 0, 512, 512), record(EventKind::segment_free, 0, 0, 4096),
                             record(EventKind::segment_alloc, 0, 0, 8192), record(EventKind::free, 0, 0, 512),
                             record(EventKind::alloc, 0, 0, 1024)});
  EXPECT_EQ(tables.unmatched, 4u) << "the retag, the second alloc, the second return, and the free of an older block";
  EXPECT_THAT(tables.blocks.bytes, ElementsAre(512, 1024));
  EXPECT_THAT(tables.blocks.segment, ElementsAre(0, 1));
}

TEST(MemoryReport, TablesKnowTheirRowsOfThePeakAndOfLimits) {
  const std::vector<Record> records{record(EventKind::free, 7, 0, 512),  record(EventKind::segment_alloc, 0, 0, 4096),
                                    record(EventKind::alloc, 0, 0, 512), record(EventKind::retag, 0, 0, 512),
                                    record(EventKind::wait, 0, 0, 0),    record(EventKind::free, 0, 0, 512)};
  const ReportTables tables(records, {{0, 1}, {3, 2}, {6, 3}});
  ASSERT_EQ(tables.unmatched, 1u) << "the first, which is no row";
  EXPECT_EQ(tables.peak.reached(), 1u);
  EXPECT_EQ(tables.peak.end(), 3u);
  std::vector<std::size_t> from, bytes;
  for (const NewLimit& l : tables.limits) from.push_back(l.from), bytes.push_back(l.bytes);
  EXPECT_THAT(from, ElementsAre(0, 2, 5));
  EXPECT_THAT(bytes, ElementsAre(1, 2, 3));
}

TEST(MemoryReport, TablesHoldTimesAsDifferences) {
  const ReportTables tables({record(EventKind::wait, 0, 0, 0, 5), record(EventKind::wait, 0, 0, 0, 9),
                             record(EventKind::wait, 0, 0, 0, 7), record(EventKind::wait, 0, 0, 0, 8)});
  EXPECT_THAT(tables.events.elapsed, ElementsAre(5, 4, 0, 0)) << "a clock that goes back is held";
}

TEST(MemoryReport, ScopesAreThoseOfEachThread) {
  using Kind = Mark::Kind;
  const ReportScopes scopes({{10, 1, 0, Kind::phase, true, Phase::backward},
                             {20, 2, 7, Kind::module, true, Phase::setup},
                             {25, 1, 3, Kind::op, true, Phase::setup},
                             {30, 1, 4, Kind::module, true, Phase::backward},
                             {40, 1, 4, Kind::module, false, Phase::backward},
                             {45, 1, 3, Kind::op, false, Phase::setup},
                             {50, 1, 0, Kind::phase, false, Phase::backward},
                             {60, 1, 0, Kind::phase, false, Phase::backward}});
  const auto backward = static_cast<std::uint64_t>(Phase::backward);
  EXPECT_THAT(scopes.thread, ElementsAre(1, 2, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(scopes.phase, ElementsAre(backward, 0, backward, backward, backward, backward, 0, 0));
  EXPECT_THAT(scopes.module, ElementsAre(0, 7, 0, 4, 0, 0, 0, 0));
  EXPECT_THAT(scopes.op, ElementsAre(0, 0, 3, 3, 3, 0, 0, 0));
  EXPECT_THAT(scopes.begins_op, ElementsAre(0, 0, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(scopes.elapsed, ElementsAre(10, 10, 5, 5, 10, 5, 5, 10));
}

TEST(MemoryReport, TablesHaveEachFieldOfARecord) {
  Record r = record(EventKind::alloc, 0, 512, 1024, 5);
  r.event.requested = 1000;
  r.event.op = 3;
  r.event.module = 4;
  r.event.step = 6;
  r.event.role = Role::saved;
  r.event.phase = Phase::backward;
  r.what = 7;
  r.thread = 8;
  r.by_module = 9;
  r.by_op = 10;
  const ReportTables tables({record(EventKind::segment_alloc, 0, 0, 4096), r});
  const auto last = [](const ReportTables::Column& c) { return c.size() == 2 ? c[1] : ~std::uint64_t{0}; };
  EXPECT_EQ(last(tables.events.kind), static_cast<std::uint64_t>(EventKind::alloc));
  EXPECT_EQ(last(tables.events.phase), static_cast<std::uint64_t>(Phase::backward));
  EXPECT_EQ(last(tables.events.role), static_cast<std::uint64_t>(Role::saved));
  EXPECT_EQ(last(tables.events.step), 6u);
  EXPECT_EQ(last(tables.events.module), 4u);
  EXPECT_EQ(last(tables.events.thread), 8u);
  EXPECT_EQ(last(tables.events.by_module), 9u);
  EXPECT_EQ(last(tables.events.by_op), 10u);
  EXPECT_EQ(last(tables.events.elapsed), 5u);
  EXPECT_EQ(last(tables.events.target), 0u);
  EXPECT_THAT(tables.blocks.segment, ElementsAre(0));
  EXPECT_THAT(tables.blocks.offset, ElementsAre(512));
  EXPECT_THAT(tables.blocks.bytes, ElementsAre(1024));
  EXPECT_THAT(tables.blocks.requested, ElementsAre(1000));
  EXPECT_THAT(tables.blocks.op, ElementsAre(3));
  EXPECT_THAT(tables.blocks.what, ElementsAre(7));
}

TEST(MemoryReport, TablesMatchABlockUntilItIsFreed) {
  const ReportTables tables({record(EventKind::segment_alloc, 0, 0, 4096), record(EventKind::alloc, 0, 0, 512),
                             record(EventKind::free, 0, 0, 512), record(EventKind::free, 0, 0, 512)});
  EXPECT_EQ(tables.unmatched, 1u);
}

TEST(MemoryReport, ScopesOfAModuleOrAPhaseChangeOnlyThat) {
  using Kind = Mark::Kind;
  const ReportScopes scopes({{10, 1, 0, Kind::phase, true, Phase::backward},
                             {20, 1, 4, Kind::module, true, Phase::setup},
                             {30, 1, 0, Kind::phase, true, Phase::forward}});
  EXPECT_THAT(scopes.phase,
              ElementsAre(static_cast<std::uint64_t>(Phase::backward), static_cast<std::uint64_t>(Phase::backward),
                          static_cast<std::uint64_t>(Phase::forward)));
  EXPECT_THAT(scopes.module, ElementsAre(0, 4, 4));
}

TEST(MemoryReport, ScopesHoldAClockThatGoesBack) {
  using Kind = Mark::Kind;
  const ReportScopes scopes({{10, 1, 1, Kind::module, true, Phase::setup},
                             {5, 2, 2, Kind::module, true, Phase::setup},
                             {8, 1, 3, Kind::module, true, Phase::setup},
                             {20, 1, 1, Kind::module, false, Phase::setup}});
  EXPECT_THAT(scopes.elapsed, ElementsAre(10, 0, 0, 10));
}

TEST(MemoryReport, AForwardWithinBackwardIsOfThatStage) {
  using Kind = Mark::Kind;
  const ReportScopes scopes({{10, 1, 0, Kind::phase, true, Phase::backward},
                             {20, 1, 0, Kind::phase, true, Phase::forward},
                             {30, 1, 0, Kind::phase, false, Phase::forward},
                             {40, 1, 0, Kind::phase, false, Phase::backward}});
  const auto forward = static_cast<std::uint64_t>(Phase::forward),
             backward = static_cast<std::uint64_t>(Phase::backward);
  EXPECT_THAT(scopes.phase, ElementsAre(backward, forward, backward, 0));
  EXPECT_THAT(scopes.stage, ElementsAre(backward, backward, backward, 0));
}

std::string kind_of_column(const std::vector<std::uint64_t>& values) {
  const ReportColumn column = ReportColumns().add(values);
  return column.type + std::string("*") + std::to_string(column.scale);
}

TEST(MemoryReport, ColumnsAreAsSmallAsTheirNumbersAllow) {
  EXPECT_EQ(kind_of_column({}), "u8*1");
  EXPECT_EQ(kind_of_column({0, 255}), "u8*1");
  EXPECT_EQ(kind_of_column({256}), "u16*1");
  EXPECT_EQ(kind_of_column({512, 65536}), "u8*512");
  EXPECT_EQ(kind_of_column({512, 65537}), "u32*1");
  EXPECT_EQ(kind_of_column({std::uint64_t{1} << 40}), "u32*512");
  EXPECT_EQ(kind_of_column({(std::uint64_t{1} << 40) + 1}), "f64*1");
}

/// The bytes of columns, as the page's script reads them.
std::string unpacked(const ReportColumns& columns) {
  std::string packed;
  std::uint32_t group = 0, bits = 0;
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const char c : columns.text()) {
    if (c == '=') break;
    group = group << 6 | static_cast<std::uint32_t>(digits.find(c));
    bits += 6;
    if (bits >= 8) packed += static_cast<char>(group >> (bits -= 8) & 255);
  }
  std::string bytes(4096, '\0');
  uLongf size = bytes.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                       packed.size()),
            Z_OK);
  bytes.resize(size);
  return bytes;
}

template <class T>
std::vector<std::uint64_t> read(const std::string& bytes, const ReportColumn& c) {
  std::vector<std::uint64_t> values;
  for (std::size_t i = 0; i < c.count; ++i) {
    T element;
    std::memcpy(&element, &bytes.at(c.at + i * sizeof(T)), sizeof(T));
    values.push_back(static_cast<std::uint64_t>(element) * c.scale);
  }
  return values;
}

TEST(MemoryReport, ColumnsAreReadBack) {
  const std::vector<std::uint64_t> small{3, 0, 255}, medium{1000, 7}, scaled{65536, 512, 0}, wide{4294967295, 1, 65537},
      large{(std::uint64_t{1} << 40) + 1, 5};
  ReportColumns columns;
  const ReportColumn a = columns.add(small), b = columns.add(medium), c = columns.add(scaled), d = columns.add(wide),
                     e = columns.add(large);
  const std::string bytes = unpacked(columns);
  EXPECT_EQ(bytes.size(), 8u + 8 + 8 + 16 + 16);
  EXPECT_EQ(read<std::uint8_t>(bytes, a), small);
  EXPECT_EQ(read<std::uint16_t>(bytes, b), medium);
  EXPECT_EQ(read<std::uint8_t>(bytes, c), scaled);
  EXPECT_EQ(read<std::uint32_t>(bytes, d), wide);
  EXPECT_EQ(read<double>(bytes, e), large);
  ReportColumns zeros;
  zeros.add(std::vector<std::uint64_t>(4000));
  EXPECT_LT(zeros.text().size(), 200u) << "they are packed";
}

TEST(MemoryReport, ColumnsBeginAtMultiplesOfEight) {
  ReportColumns columns;
  EXPECT_EQ(columns.add({1, 2, 3}).at, 0u);
  EXPECT_EQ(columns.add({1000, 2000, 3000, 4000, 5000}).at, 8u);
  EXPECT_EQ(columns.add({1}).at, 24u);
}

TEST(MemoryReport, Base64IsThatOfTheStandard) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
                                                       {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xff\xfe", "///+"}};
  for (const auto& [bytes, expected] : cases) EXPECT_EQ(base64(bytes), expected);
}

Log small_log(const std::string& name) {
  Log log{.program = "a program", .names = {"", name}};
  log.devices.push_back({.name = "cpu", .records = {record(EventKind::segment_alloc, 0, 0, 4096)}});
  return log;
}

std::string page_of(const Report& report) {
  std::ostringstream out;
  write_report(report, out);
  return out.str();
}

class MemoryReportPage : public ::testing::Test {
 protected:
  void SetUp() override {
    if (report_page::d3.empty()) GTEST_SKIP() << "built without d3";
  }
};

TEST_F(MemoryReportPage, HoldsNamesThatWouldEndItsScript) {
  const Log log = small_log("</script><script>alert(1)</script>");
  const std::string page = page_of({&log, nullptr, {"an advice & <b>"}});
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("\\u003c/script>\\u003cscript>alert(1)"));
  EXPECT_THAT(page, HasSubstr("an advice & \\u003cb>"));
}

TEST_F(MemoryReportPage, IsWhole) {
  const Log log = small_log("net");
  const std::string page = page_of({&log, nullptr, {}});
  for (const char* part : {"{{STYLE}}", "{{D3}}", "{{SCRIPT}}", "{{HEADER}}", "{{DATA}}"})
    EXPECT_THAT(page, Not(HasSubstr(part)));
  EXPECT_EQ(page.find("a program"), page.rfind("a program")) << "its header once, and then its columns:";
  ReportColumns columns;
  columns.add({static_cast<std::uint64_t>(EventKind::segment_alloc)});
  EXPECT_THAT(page, HasSubstr("[\"" + columns.text().substr(0, 2)));
  for (const std::string_view part : {report_page::style, report_page::d3, report_page::script})
    EXPECT_NE(page.find(part), std::string::npos);
  EXPECT_THAT(page, HasSubstr("</html>"));
  EXPECT_THAT(page, Not(HasSubstr("<script src")));
  EXPECT_EQ(page, page_of({&log, nullptr, {}})) << "equal recordings, equal bytes";
}

TEST_F(MemoryReportPage, OfTwoRunsHasBoth) {
  Log one = small_log("net.one"), other = small_log("net.other");
  other.program = "another program";
  EXPECT_THAT(page_of({&one, &other, {}}),
              AllOf(HasSubstr(R"("runs":[{"program":"a program",)"), HasSubstr(R"({"program":"another program",)"),
                    HasSubstr("net.one"), HasSubstr("net.other")));
  EXPECT_THAT(page_of({&one, &other, {}, "one.memlog", "other.memlog"}),
              AllOf(HasSubstr(R"({"program":"a program","file":"one.memlog",)"),
                    HasSubstr(R"({"program":"another program","file":"other.memlog",)")));
  const test::TemporaryDir dir;
  write_report(one, other, dir / "both.html");
  EXPECT_THAT(test::content_of(dir / "both.html"), HasSubstr("another program"));
  EXPECT_THAT(page_of({&one, nullptr, {}}), Not(HasSubstr("another program")));
  write_report(dir / "now.html");  // of the program so far
  EXPECT_THAT(test::content_of(dir / "now.html"), HasSubstr(R"("runs":[{"program":")"));
}

TEST_F(MemoryReportPage, HasNullForWhatIsNotKnown) {
  Log log = small_log("net");
  constexpr std::size_t no_bound = std::numeric_limits<std::size_t>::max();
  DeviceLog& d = log.devices[0];
  d.capacity = d.limit = no_bound;
  EXPECT_THAT(page_of({&log, nullptr, {}}),
              AllOf(HasSubstr(R"("capacity":null,"limits":[{"from":0,"bytes":null}])"),
                    HasSubstr(R"("dropped":0,"unmatched":0,"outside":null,"others":null,"external":0,"end":null)")));
  d.external = {20, 40};
  EXPECT_THAT(page_of({&log, nullptr, {}}), HasSubstr(R"("external":20)"));
  d.outside = Outside{30, {}};
  EXPECT_THAT(page_of({&log, nullptr, {}}), HasSubstr(R"("outside":30,"others":null)"));
  d.outside = Outside{30, 10};
  EXPECT_THAT(page_of({&log, nullptr, {}}), HasSubstr(R"("outside":30,"others":10)"));
  d.capacity = 4096;
  d.limit = 2048;
  d.limits = {{1, 1024}, {1, no_bound}};
  d.dropped = 3;
  d.end = Statistics{.allocations = 7};
  EXPECT_THAT(
      page_of({&log, nullptr, {}}),
      AllOf(HasSubstr(R"("capacity":4096,"limits":[{"from":0,"bytes":2048},{"from":1,"bytes":1024},)"
                      R"({"from":1,"bytes":null}])"),
            HasSubstr(R"("dropped":3,)"), HasSubstr(R"("end":{"allocated":)"), HasSubstr(R"("allocations":7)")));
}

TEST_F(MemoryReportPage, OfLedgersHasNoAdvice) {
  Log log = small_log("net");
  std::vector<Record>& records = log.devices[0].records;
  const auto does = [&](EventKind kind, Phase phase, NameId module, std::uint64_t offset = 0, std::uint64_t bytes = 1) {
    records.push_back(record(kind, 0, offset, bytes, records.size()));
    records.back().event.phase = phase;
    records.back().event.step = 1;
    records.back().event.module = records.back().event.old_module = records.back().by_module = module;
  };
  using enum EventKind;
  const auto passes = [&](EventKind kind, std::uint64_t offset) {
    does(kind, Phase::forward, 1, offset, 512);
    records.back().event.requested = 0;  // the first that the call is given, or returns
  };
  does(step_begin, Phase::forward, 0);
  does(alloc, Phase::forward, 0, 3 << 20, 512);
  passes(argument, 3 << 20);
  does(alloc, Phase::forward, 1, 0, 1 << 20);  // kept for backward
  does(hold, Phase::forward, 1, 0, 1 << 20);
  does(alloc, Phase::forward, 1, 1 << 21, 512);  // the result
  passes(result, 1 << 21);
  does(alloc, Phase::forward, 0, 1 << 22, 1 << 20);
  does(free, Phase::forward, 0, 1 << 22, 1 << 20);
  does(drop, Phase::backward, 1, 0, 1 << 20);
  does(free, Phase::backward, 1, 0, 1 << 20);
  does(free, Phase::backward, 1, 1 << 21, 512);
  does(step_end, Phase::forward, 0);
  const test::TemporaryDir dir;
  const auto advises = [&] {
    write_report(log, dir / "run.html");
    return test::content_of(dir / "run.html").find("\"advice\":[]") == std::string::npos;
  };
  EXPECT_TRUE(advises());
  log.from_ledgers = true;
  EXPECT_FALSE(advises());
}

TEST_F(MemoryReportPage, NamesAFileThatCannotBeWritten) {
  const Log log = small_log("net");
  EXPECT_THROW(write_report(log, "/no/such/folder/run.html"), FileError);
  EXPECT_THROW(write_report(Report{}, "none.html"), ValueError);
}

TEST(MemoryReport, WithoutD3SaysWhatToInstall) {
  if (!report_page::d3.empty()) GTEST_SKIP() << "built with d3";
  const Log log = small_log("net");
  try {
    page_of({&log, nullptr, {}});
    FAIL() << "nothing was thrown";
  } catch (const Error& e) { EXPECT_THAT(e.what(), HasSubstr("node-d3")); }
}

}  // namespace
}  // namespace bytetape::memory
