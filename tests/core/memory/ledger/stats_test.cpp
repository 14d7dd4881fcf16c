#include "bytetape/core/memory/stats.h"
#include "bytetape/core/memory/report/statistics_json.h"

#include <gtest/gtest.h>

#include <numeric>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using memory::Holder;
using memory::Role;

class Stats : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override { memory::reset_peaks(GetParam()); }
  Tensor make(std::int64_t n, Role role) const { return empty({n}, DType::f32, GetParam(), role); }
};

TEST_P(Stats, AreTheDevices) {
  const Tensor x = make(5000, Role::input);
  const memory::Statistics s = memory::stats(GetParam());
  EXPECT_EQ(s.allocated.current, test::allocated(GetParam()));
  EXPECT_GE(s.allocated.current, 20000u);
  EXPECT_GE(s.by_role[static_cast<std::size_t>(Role::input)].current, 20000u);
}

TEST_P(Stats, ThePeakIsTakenApartByRoleModuleAndOp) {
  const DefaultDevice here(GetParam());
  {
    const memory::Step step;
    const memory::Scope scope("encoder");
    const memory::Op<"relu"> op;
    const Tensor x = make(1 << 20, Role::input), y = make(1 << 18, Role::temporary);
  }
  const Tensor later = make(1 << 10, Role::input);
  const memory::Peak peak = memory::at_peak();
  EXPECT_EQ(peak.allocated, memory::stats().allocated.peak);
  EXPECT_GE(peak.step, 1u);
  EXPECT_EQ(peak.phase, memory::Phase::forward);
  EXPECT_EQ(memory::total(peak.by_role), peak.allocated);
  const auto sum = [](const std::vector<Holder>& holders) {
    return std::accumulate(holders.begin(), holders.end(), std::size_t{0},
                           [](std::size_t n, const Holder& h) { return n + h.bytes; });
  };
  EXPECT_EQ(sum(peak.by_module), peak.allocated);
  EXPECT_EQ(sum(peak.by_op), peak.allocated);
  ASSERT_GE(peak.by_module.size(), 2u);
  EXPECT_EQ(memory::name_of(peak.by_module[0].name), "encoder");
  EXPECT_EQ(peak.by_module[0].role, Role::input);
  EXPECT_EQ(peak.by_module[0].bytes, std::size_t{4} << 20);
  EXPECT_EQ(memory::name_of(peak.by_op[1].name), "relu");
  EXPECT_EQ(peak.by_op[1].bytes, std::size_t{1} << 20);
}

TEST_P(Stats, FunctionsAreOfTheDevice) {
  const Device device = GetParam();
  make(8 << 20, Role::input);
  memory::empty_cache(device);
  const std::size_t reserved = memory::stats(device).reserved.current, limit = memory::snapshot(device).limit;
  make(8 << 20, Role::input);
  if (memory::mode_from_environment() == memory::Allocator::Mode::caching) {
    EXPECT_GE(memory::stats(device).reserved.current, reserved + (std::size_t{32} << 20));
  }
  memory::empty_cache(device);
  EXPECT_EQ(memory::stats(device).reserved.current, reserved);
  memory::set_limit(reserved + (std::size_t{16} << 20), device);
  EXPECT_EQ(memory::snapshot(device).limit, reserved + (std::size_t{16} << 20));
  EXPECT_THROW(make(8 << 20, Role::input), OutOfMemory);
  memory::set_limit(limit, device);
  make(8 << 20, Role::input);
  EXPECT_GE(memory::stats(device).reserved.peak, reserved + (std::size_t{32} << 20));
  memory::reset_peaks(device);
  EXPECT_EQ(memory::stats(device).reserved.peak, memory::stats(device).reserved.current);
  memory::reset_log(device);
  EXPECT_TRUE(memory::snapshot(device).events.empty());
}

INSTANTIATE_TEST_SUITE_P(Devices, Stats, ::testing::Values(Device::cpu(), Device::meta()),
                         [](const auto& info) { return std::string(info.param.is_meta ? "Meta" : "Cpu"); });

TEST(StatisticsFile, IsReadUnderARolesFormerName) {
  memory::Statistics s;
  s.by_role[static_cast<std::size_t>(Role::autocast_copy)] = {.current = 3, .peak = 7};
  std::string text = memory::to_json(s);
  const std::string now = "autocast copy", former = "lowered parameter";
  ASSERT_NE(text.find(now), std::string::npos);
  text.replace(text.find(now), now.size(), former);
  const memory::Statistics read = memory::statistics_from_json(text);
  EXPECT_EQ(read.by_role[static_cast<std::size_t>(Role::autocast_copy)].current, 3u);
  EXPECT_EQ(read.by_role[static_cast<std::size_t>(Role::autocast_copy)].peak, 7u);
  EXPECT_THROW(memory::statistics_from_json(text.replace(text.find(former), former.size(), "another role")),
               ValueError);
}

TEST(StatisticsFile, IsReadWithoutALaterRole) {
  for (const Role later : {Role::key_value_cache, Role::communication}) {
    memory::Statistics s;
    s.by_role[static_cast<std::size_t>(later)] = {.current = 3, .peak = 7};
    std::string text = memory::to_json(s);
    const std::string role = std::string(",\"") + to_string(later) + R"(":{"current":3,"peak":7})";
    ASSERT_NE(text.find(role), std::string::npos);
    text.erase(text.find(role), role.size());
    const memory::Statistics read = memory::statistics_from_json(text);
    EXPECT_EQ(read.by_role[static_cast<std::size_t>(later)].peak, 0u);
  }
}

}  // namespace
}  // namespace bytetape
