// Memory of other libraries that tensors use has a line of its own.
#include "bytetape/core/memory/ledger/external.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/core/factories.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/snapshot_of.h"
#include "bytetape/core/memory/stats.h"
#include "bytetape/core/memory/summary.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const char* at(std::size_t n) { return reinterpret_cast<const char*>(n); }

/// The same as ExternalRanges, byte by byte.
struct Bytes {
  std::vector<int> cover = std::vector<int>(200);
  std::size_t peak = 0;
  void change(std::size_t from, std::size_t bytes, int by) {
    for (std::size_t i = from; i < from + bytes; ++i) cover[i] += by;
    peak = std::max(peak, now());
  }
  std::size_t now() const {
    return static_cast<std::size_t>(std::ranges::count_if(cover, [](int n) { return n > 0; }));
  }
};

TEST(ExternalRanges, CountBytesOfOverlappingRangesOnce) {
  std::mt19937 random(7);
  ExternalRanges ranges;
  Bytes bytes;
  std::vector<std::pair<std::size_t, std::size_t>> held;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 2 && !held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      const auto [from, n] = held.back();
      held.pop_back();
      ranges.remove(at(from), n);
      bytes.change(from, n, -1);
    } else {
      held.emplace_back(random() % 160, random() % 40);
      ranges.add(at(held.back().first), held.back().second);
      bytes.change(held.back().first, held.back().second, 1);
    }
    ASSERT_EQ(ranges.total(), (External{bytes.now(), bytes.peak})) << "after step " << i;
    if (i % 500 == 499) {
      ranges.reset_peak();
      bytes.peak = bytes.now();
    }
  }
}

TEST(ExternalMemory, IsInTheSnapshotBesideTheRoles) {
  reset_peaks();
  const Snapshot before = snapshot();
  std::vector<float> data(1000);
  {
    const Tensor x = from_blob(data.data(), {1000}, DType::f32), y = from_blob(data.data() + 500, {500}, DType::f32);
    const Snapshot s = snapshot();
    EXPECT_EQ(s.external.bytes - before.external.bytes, 4000);
    EXPECT_EQ(s.statistics.allocated.current, before.statistics.allocated.current);
    EXPECT_THAT(summarize(s), HasSubstr("external: 3.91 KiB of other libraries' memory in tensors, at most 3.91 KiB"));
  }
  const External after = snapshot().external;
  EXPECT_EQ(after.bytes, before.external.bytes);
  EXPECT_EQ(after.peak - before.external.bytes, 4000);
  reset_peaks();
  EXPECT_EQ(snapshot().external.peak, after.bytes);
  EXPECT_THAT(summarize(snapshot()), Not(HasSubstr("external")));
}

TEST(ExternalMemory, IsInARecording) {
  const test::TemporaryDir dir;
  const std::string path = dir / "run.memlog";
  float data[100];
  const Tensor kept = from_blob(data, {100}, DType::f32);
  Recording recording(path);
  { const Tensor x = from_blob(data + 50, {50}, DType::f32); }
  recording.finish();
  const Log log = read_log(path);
  const auto cpu = std::ranges::find(log.devices, "cpu", &DeviceLog::name);
  ASSERT_NE(cpu, log.devices.end());
  EXPECT_EQ(cpu->external.bytes, 400);
  EXPECT_GE(cpu->external.peak, 400);
  EXPECT_EQ(snapshot_of(log, *cpu).external, cpu->external);
}

TEST(ExternalMemory, TheThreadOfReleasesMayReleaseMore) {
  test::FakeGpu gpu;
  std::vector<float> data(8);
  std::vector<int> released;
  {
    Tensor inner = from_blob(data.data(), {4}, DType::f32,
                             {.device = test::FakeGpu::gpu, .release = [&] { released.push_back(1); }});
    const Tensor outer =
        from_blob(data.data() + 4, {4}, DType::f32,
                  {.device = test::FakeGpu::gpu, .release = [&, inner] { released.push_back(inner.size(0)); }});
    inner = Tensor();
  }
  bytetape::finish_releases();
  EXPECT_EQ(released, (std::vector<int>{4, 1}));
  EXPECT_EQ(allocator(test::FakeGpu::gpu).external().bytes, 0);
}

/// A device of 1 MiB, of which 600 KiB are used by others.
struct SmallGpu final : Upstream {
  void* allocate(std::size_t bytes) noexcept override { return bytes > 424 << 10 ? nullptr : host.allocate(bytes); }
  void deallocate(void* data, std::size_t bytes) noexcept override { host.deallocate(data, bytes); }
  std::size_t capacity() const override { return std::size_t{1} << 20; }
  std::optional<Outside> outside() const override { return Outside{600 << 10, {}}; }
  HostUpstream host;
};

TEST(ExternalMemory, OfTheHostIsAPartOfOutside) {
  Allocator a(Device::cpu(), std::make_unique<SmallGpu>());
  a.external_ranges().add(at(4096), 100 << 10);
  EXPECT_EQ(a.outside()->bytes, 600 << 10);
}

TEST(ExternalMemory, IsARowOfOutOfMemoryAndNotOutsideAsWell) {
  Allocator a(Device::cuda(), std::make_unique<SmallGpu>());
  a.external_ranges().add(at(4096), 100 << 10);
  EXPECT_EQ(a.outside()->bytes, 500 << 10);
  EXPECT_EQ(a.snapshot().external.bytes, 100 << 10);
  try {
    a.allocate(900 << 10, Role::input);
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& e) {
    const Shortage& s = e.shortage();
    EXPECT_EQ(s.available(), (1 << 20) - (600 << 10));
    EXPECT_THAT(e.what(), HasSubstr("external                 100 KiB"));
    EXPECT_THAT(e.what(), HasSubstr("outside the ledger       500 KiB"));
    EXPECT_THAT(e.what(), HasSubstr("device                  1.00 MiB"));
  }
}

TEST(ExternalMemory, IsNamedBelowTheTableOfTheHost) {
  Allocator a(Device::cpu(), std::make_unique<HostUpstream>());
  a.set_limit(1 << 20);
  a.external_ranges().add(at(4096), 100 << 10);
  try {
    a.allocate(2 << 20, Role::input);
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& e) {
    EXPECT_THAT(e.what(), HasSubstr("not in the table: 100 KiB external"));
    EXPECT_THAT(e.what(), HasSubstr("limit                   1.00 MiB"));
  }
}

}  // namespace
}  // namespace bytetape::memory
