#include "bytetape/core/memory/report/statistics_json.h"

#include <gmock/gmock.h>

#include "bytetape/core/error.h"

namespace bytetape::memory {
namespace {

/// Every figure another.
Statistics figures() {
  std::size_t next = 1;
  const auto watermark = [&] {
    const std::size_t current = next++;
    return Watermark{current, next++};
  };
  const auto traffic = [&] {
    const std::size_t count = next++;
    return Traffic{count, next++};
  };
  Statistics s{.allocated = watermark(), .requested = watermark(), .reserved = watermark()};
  for (Watermark& role : s.by_role) role = watermark();
  s.allocations = next++;
  s.upstream_calls = next++;
  s.to_device = traffic();
  s.to_host = traffic();
  s.waits = next++;
  return s;
}

TEST(StatisticsJson, IsReadAsItWasWritten) {
  const Statistics s = figures(), read = statistics_from_json(to_json(s));
  const auto expect_equal = [](const Watermark& a, const Watermark& b, const char* of) {
    EXPECT_EQ(a.current, b.current) << of;
    EXPECT_EQ(a.peak, b.peak) << of;
  };
  expect_equal(read.allocated, s.allocated, "allocated");
  expect_equal(read.requested, s.requested, "requested");
  expect_equal(read.reserved, s.reserved, "reserved");
  for (std::size_t r = 0; r < role_count; ++r)
    expect_equal(read.by_role[r], s.by_role[r], to_string(static_cast<Role>(r)));
  EXPECT_EQ(read.allocations, s.allocations);
  EXPECT_EQ(read.upstream_calls, s.upstream_calls);
  EXPECT_EQ(read.to_device.count, s.to_device.count);
  EXPECT_EQ(read.to_device.bytes, s.to_device.bytes);
  EXPECT_EQ(read.to_host.count, s.to_host.count);
  EXPECT_EQ(read.to_host.bytes, s.to_host.bytes);
  EXPECT_EQ(read.waits, s.waits);
}

TEST(StatisticsJson, NamesItsFigures) {
  const std::string text = to_json(figures());
  using ::testing::HasSubstr;
  EXPECT_THAT(text, ::testing::StartsWith(R"({"allocated":{"current":1,"peak":2},"requested":{"current":3,"peak":4},)"
                                          R"("reserved":{"current":5,"peak":6},"roles":{)"));
  EXPECT_THAT(text, HasSubstr('"' + std::string(to_string(Role{})) + R"(":{"current":7,"peak":8})"));
  const std::size_t n = 7 + 2 * role_count;
  const auto at = [&](std::size_t i) { return std::to_string(n + i); };
  EXPECT_THAT(text, ::testing::EndsWith("},\"allocations\":" + at(0) + ",\"upstream_calls\":" + at(1) +
                                        ",\"to_device\":{\"count\":" + at(2) + ",\"bytes\":" + at(3) +
                                        "},\"to_host\":{\"count\":" + at(4) + ",\"bytes\":" + at(5) +
                                        "},\"waits\":" + at(6) + "}"));
}

TEST(StatisticsJson, RefusesWhatIsNoCount) {
  const std::string text = to_json(Statistics{}), count = "\"allocations\":0";
  ASSERT_NE(text.find(count), std::string::npos);
  for (const char* value : {"-1", "1e300", "0.5", "true"}) {
    std::string changed = text;
    changed.replace(text.find(count), count.size(), std::string("\"allocations\":") + value);
    EXPECT_THROW(statistics_from_json(changed), ValueError) << value;
  }
}

}  // namespace
}  // namespace bytetape::memory
