#include "bytetape/core/memory/allocator/upstream.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>

namespace bytetape::memory {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

TEST(Upstream, SimulationHasTheCapacityItIsGiven) {
  SimulatedUpstream upstream(10 * MiB);
  EXPECT_EQ(upstream.capacity(), 10 * MiB);
  void* a = upstream.allocate(6 * MiB);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(upstream.allocate(4 * MiB + 1), nullptr);
  EXPECT_NE(upstream.allocate(4 * MiB), nullptr);
  upstream.deallocate(a, 6 * MiB);
  EXPECT_NE(upstream.allocate(6 * MiB), nullptr);
}

TEST(Upstream, HostRefusesWhatNoMachineHas) {
  HostUpstream upstream;
  EXPECT_GT(upstream.capacity(), 64 * MiB);
  EXPECT_EQ(upstream.allocate(std::size_t{1} << 62), nullptr);
  EXPECT_EQ(upstream.allocate(std::numeric_limits<std::size_t>::max()), nullptr);
}

TEST(Upstream, HostSegmentsAreAligned) {
  HostUpstream upstream;
  for (std::size_t bytes : {std::size_t{512}, 2 * MiB, 3 * MiB + 512}) {
    void* data = upstream.allocate(bytes);
    const std::size_t page = bytes >= 2 * MiB ? 2 * MiB : 4096;  // a huge page, if the system has them
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % page, 0u);
    std::memset(data, 1, bytes);
    upstream.deallocate(data, bytes);
  }
}

}  // namespace
}  // namespace bytetape::memory
