// The complete exports of one log, compared with files in tests/golden. The log's records are written by hand, with
// different values in all fields. If a format changes, copy the text that the failing test prints.
#include "bytetape/core/memory/export.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bytetape/core/memory/log.h"
#include "bytetape/core/memory/report/pickle.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

using Json = nlohmann::ordered_json;

enum Name : NameId { none, net_a, net_b, conv, relu, tensor };

class LogBuilder {
 public:
  LogBuilder() { records().reserve(64); }
  std::vector<Record>& records() { return log.devices[1].records; }
  /// A record of block `offset` of segment `segment`, by an op of a module.
  Record& add(EventKind kind, std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes, NameId by_module = none,
              NameId by_op = none) {
    Record r;
    r.event = {.offset = offset, .bytes = bytes, .requested = bytes, .segment = segment, .step = 3, .kind = kind};
    r.event.role = r.event.old_role = Role::temporary;
    r.event.phase = Phase::forward;
    r.time = 1500 * (records().size() + 1);
    r.by_module = by_module;
    r.by_op = by_op;
    r.thread = 2;
    return records().emplace_back(r);
  }
  Log log{.program = "a \"run\"",
          .names = {"", "net.a", "net.\"b\"", "conv", "relu", "f32 250"},
          .devices = {{.name = "cpu"}, {.name = "cuda:0, mine", .capacity = 1 << 30, .limit = 8 << 20}}};
};

Log whole_log() {
  using enum EventKind;
  LogBuilder b;
  b.add(segment_alloc, 0, 0, 2 << 20);
  b.add(step_begin, 0, 0, 0);
  Record& made = b.add(alloc, 0, 512, 1024, net_a, conv);
  made.event.requested = 1000;
  made.event.module = net_a;
  made.event.op = conv;
  made.what = tensor;
  Record& retagged = b.add(retag, 0, 512, 1024, net_a, relu);
  retagged.event.role = Role::saved;
  retagged.event.module = net_b;
  retagged.event.old_module = net_a;
  retagged.event.op = conv;
  b.add(hold, 0, 512, 1024, net_a, conv);
  b.add(hold, 0, 512, 1024, net_b, conv);
  b.add(hold, 0, 512, 1024, net_a, relu);
  b.add(argument, 0, 512, 1024, net_a);
  b.add(result, 0, 512, 1024, net_a);
  b.add(to_device, 0, 0, 64, net_a, conv);
  b.add(out_of_memory, 0, 0, 16 << 20, net_b, relu);
  b.add(drop, 0, 512, 1024, net_a, conv);
  b.add(drop, 0, 512, 1024, net_b, relu).event.phase = Phase::backward;  // of no hold: the last
  b.add(drop, 0, 512, 1024, net_b, conv).event.phase = Phase::backward;
  b.add(drop, 0, 512, 1024, net_b, conv).event.phase = Phase::backward;  // there is no hold left
  Record& back = b.add(retag, 0, 512, 1024);
  back.event.old_role = Role::saved;
  back.event.module = back.event.old_module = net_b;
  b.add(segment_alloc, 1, 0, 2 << 20 | 512);
  Record& large = b.add(alloc, 1, 0, 2 << 20 | 512, none, relu);  // all of it
  large.event.role = Role::parameter;
  large.event.op = relu;
  b.add(alloc, 0, 1536, 512);
  b.add(free, 0, 1536, 512, net_b, conv);
  b.add(step_end, 0, 0, 0);
  b.add(segment_alloc, 2, 0, 4096);
  b.add(segment_free, 2, 0, 4096);
  b.log.marks = {{.time = 1, .thread = 2, .name = net_a, .kind = Mark::Kind::module, .begins = false},  // began before
                 {.time = 1002, .thread = 2, .name = net_b, .kind = Mark::Kind::module},
                 {.time = 1003, .thread = 4, .kind = Mark::Kind::phase, .phase = Phase::backward},
                 {.time = 1004, .thread = 2, .name = relu, .kind = Mark::Kind::op},
                 {.time = 1005, .thread = 2, .name = relu, .kind = Mark::Kind::op, .begins = false}};
  return b.log;
}

template <class Write>
std::string text(const Write& write, const Log& log) {
  std::ostringstream out;
  write(log, out);
  return out.str();
}

std::string golden(const char* name) { return test::content_of(test::source_dir() / "tests/golden" / name); }

TEST(ExportTexts, OfCsv) { EXPECT_EQ(text(write_csv, whole_log()), golden("export.csv")); }

TEST(ExportTexts, OfAChromeTrace) { EXPECT_EQ(text(write_chrome_trace, whole_log()), golden("export_chrome.json")); }

TEST(ExportTexts, OfAChromeTraceHaveNoArrowFromABlockThatIsGone) {
  using enum EventKind;
  LogBuilder b;
  b.add(segment_alloc, 0, 0, 4096);
  b.add(alloc, 0, 0, 512);
  b.add(hold, 0, 0, 512, net_a, conv);
  b.add(free, 0, 0, 512);
  b.add(alloc, 0, 0, 512);
  b.add(drop, 0, 0, 512, net_a, conv);
  EXPECT_EQ(text(write_chrome_trace, b.log).find("\"cat\":\"saved\""), std::string::npos);
}

// Two nodes of one op of one module hold a block: the one that is dropped first is the one that saved last.
TEST(ExportTexts, OfAChromeTraceHaveArrowsThatDoNotCross) {
  using enum EventKind;
  LogBuilder b;
  b.add(segment_alloc, 0, 0, 4096);
  b.add(alloc, 0, 0, 512);
  for (const EventKind kind : {hold, hold, drop, drop}) b.add(kind, 0, 0, 512, net_a, conv);
  std::map<int, double> starts, ends;
  const Json trace = Json::parse(text(write_chrome_trace, b.log));
  for (const Json& e : trace["traceEvents"]) {
    if (e["ph"] == "s") starts[e["id"]] = e["ts"];
    if (e["ph"] == "f") ends[e["id"]] = e["ts"];
  }
  EXPECT_EQ(starts, (std::map<int, double>{{1, 6.0}, {2, 4.5}})) << "us";
  EXPECT_EQ(ends, (std::map<int, double>{{1, 7.5}, {2, 9.0}})) << "us";
}

/// Reads what PickleWriter writes, as Python's pickle does.
class Unpickler {
 public:
  explicit Unpickler(const std::string& bytes) : bytes_(bytes) {}

  Json read() {
    for (;;) switch (const char op = next(); op) {
        case '\x80':
          next();
          break;
        case '}':
          stack_.push_back(Json::object());
          break;
        case ']':
          stack_.push_back(Json::array());
          break;
        case '(':
          marks_.push_back(stack_.size());
          break;
        case 'u':
        case 'e':
          collect(op == 'u');
          break;
        case 'X': {
          const std::size_t n = number(4);
          stack_.emplace_back(bytes_.substr(at_, n));
          at_ += n;
          break;
        }
        case 'J':
          stack_.emplace_back(static_cast<std::int32_t>(number(4)));
          break;
        case '\x8a':
          stack_.emplace_back(number(static_cast<int>(number(1))));
          break;
        case '\x89':
          stack_.emplace_back(false);
          break;
        case 'r':
          memo_[number(4)] = stack_.back();
          break;
        case 'j':
          stack_.push_back(memo_.at(number(4)));
          break;
        case '.':
          return at_ == bytes_.size() && stack_.size() == 1 ? stack_[0] : Json("more follows");
        default:
          return Json("unknown opcode");
      }
  }

 private:
  char next() { return bytes_.at(at_++); }
  std::uint64_t number(int size) {
    std::uint64_t value = 0;
    for (int i = 0; i < size; ++i) value |= std::uint64_t{static_cast<unsigned char>(next())} << 8 * i;
    return value;
  }
  /// Moves what lies above the mark into the container below it.
  void collect(bool is_dict) {
    const std::size_t begin = marks_.back();
    marks_.pop_back();
    Json& into = stack_.at(begin - 1);
    EXPECT_LE(is_dict ? 0 : stack_.size() - begin, 1000u) << "readers may pass the items as arguments of a call";
    for (std::size_t i = begin; i < stack_.size(); i += is_dict ? 2 : 1)
      is_dict ? void(into[stack_[i].get<std::string>()] = stack_.at(i + 1)) : into.push_back(stack_[i]);
    stack_.resize(begin);
  }

  const std::string bytes_;
  std::size_t at_ = 0;
  std::vector<Json> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, Json> memo_;
};

TEST(ExportTexts, OfATorchSnapshot) {
  const Json snapshot = Unpickler(text(write_torch_snapshot, whole_log())).read();
  EXPECT_EQ(snapshot.dump(1) + "\n", golden("export_torch.json"));
}

std::vector<std::uint64_t> free_at_failures(const LogBuilder& b) {
  std::vector<std::uint64_t> all;
  const Json snapshot = Unpickler(text(write_torch_snapshot, b.log)).read();
  for (const Json& e : snapshot.at("device_traces")[0])
    if (e["action"] == "oom") all.push_back(e["device_free"]);
  return all;
}

TEST(ExportTexts, OfATorchSnapshotSayWhatWasFree) {
  using enum EventKind;
  constexpr std::size_t mib = 1 << 20, no_bound = std::numeric_limits<std::size_t>::max();
  const auto failures = [&](std::size_t capacity, std::size_t limit) {
    LogBuilder b;
    b.log.devices[1].capacity = capacity;
    b.log.devices[1].limit = limit;
    b.add(out_of_memory, 0, 0, 512);
    b.add(segment_alloc, 0, 0, 4 * mib);
    b.add(segment_alloc, 1, 0, 2 * mib);
    b.add(out_of_memory, 0, 0, 512);
    b.add(segment_free, 0, 0, 4 * mib);
    b.add(out_of_memory, 0, 0, 512);
    return free_at_failures(b);
  };
  using Bytes = std::vector<std::uint64_t>;
  EXPECT_EQ(failures(no_bound, 8 * mib), (Bytes{8 * mib, 2 * mib, 6 * mib}));
  EXPECT_EQ(failures(8 * mib, no_bound), (Bytes{8 * mib, 2 * mib, 6 * mib}));
  EXPECT_EQ(failures(7 * mib, 8 * mib), (Bytes{7 * mib, mib, 5 * mib}));
  EXPECT_EQ(failures(no_bound, 5 * mib), (Bytes{5 * mib, 0, 3 * mib})) << "a limit set below what is reserved";
  EXPECT_EQ(failures(no_bound, no_bound), (Bytes{0, 0, 0})) << "not known";
}

// Each kind of value as the first of a list, and behind another.
TEST(ExportTexts, OfListsAreReadBack) {
  std::ostringstream out;
  PickleWriter p(out);
  std::vector<std::function<void()>> values{[&] { p.add("new"); },
                                            [&] { p.add("new"); },
                                            [&] { p.add(7); },
                                            [&] { p.add_false(); },
                                            [&] { p.begin_list(), p.end_list(); },
                                            [&] { p.begin_dict(), p.key("key"), p.add("new"), p.end_dict(); }};
  const Json expected = {"new", "new", 7, false, Json::array(), {{"key", "new"}}};
  Json all = Json::array();
  p.begin_list();
  for (std::size_t first = 0; first < values.size(); ++first)
    for (std::size_t second = 0; second < values.size(); ++second) {
      p.begin_list();
      values[first]();
      values[second]();
      p.end_list();
      all.push_back(Json::array({expected[first], expected[second]}));
    }
  p.end_list();
  p.finish();
  EXPECT_EQ(Unpickler(out.str()).read(), all);
}

TEST(ExportTexts, OfNumbersAreReadBack) {
  const Json numbers = {0, 1, 255, 256, 2147483647, 2147483648, 4294967296, 9223372036854775807};
  std::ostringstream out;
  PickleWriter p(out);
  p.begin_list();
  for (const Json& n : numbers) p.add(n.get<std::uint64_t>());
  p.end_list();
  p.finish();
  EXPECT_EQ(Unpickler(out.str()).read(), numbers);
}

// A list is appended to in parts of 1000, as by Python's writer.
TEST(ExportTexts, OfATorchSnapshotOfManyEvents) {
  for (const std::size_t n : {1000, 1001, 2001}) {
    LogBuilder b;
    for (std::size_t i = 0; i < n; ++i)
      b.add(EventKind::segment_alloc, static_cast<std::uint32_t>(i), 0, 512 * (i + 1));
    const Json snapshot = Unpickler(text(write_torch_snapshot, b.log)).read();
    const Json& events = snapshot["device_traces"][0];
    ASSERT_EQ(events.size(), n);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(events[i]["size"], 512 * (i + 1));
  }
}

}  // namespace
}  // namespace bytetape::memory
