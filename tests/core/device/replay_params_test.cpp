// The parameters that a captured step receives before each replay.
#include <cstring>
#include <set>
#include <utility>

#include "bytetape/bytetape.h"
#include "bytetape/core/device/capture.h"
#include "tests/support/expect.h"
#include "tests/support/stand_in.h"

namespace bytetape {
namespace {

using detail::ReplayParams;

std::size_t sent = 0;
std::set<std::pair<int, int>> waits;  // of the second stream for the first

class ReplayParameters : public testing::Test {
 protected:
  ReplayParameters() {
    sent = 0;
    waits.clear();
  }
  const test::StandIn stand_in{{.transfer =
                                    [](Place<const void*> from, Place<void*> to, std::size_t bytes) {
                                      test::copy_bytes(from, to, bytes);
                                      sent += bytes;
                                    },
                                .order = [](int, int from, int to) noexcept { waits.emplace(from, to); }}};
  const Device gpu = Device::cuda();
};

TEST_F(ReplayParameters, AreSentWhenTheyChange) {
  ReplayParams params(gpu);
  params.update();
  params.send();
  EXPECT_EQ(sent, 0u) << "there are none";
  std::uint64_t value = 7;
  std::uint32_t small = 3;
  int checks = 0;
  const auto copies = [](auto& from) { return [&from](void* to) { std::memcpy(to, &from, sizeof from); }; };
  const void* at = params.add(sizeof value, copies(value), [&] { ++checks; });
  const void* small_at = params.add(sizeof small, copies(small));
  const auto there = [&] {
    params.update();
    params.send();
    std::uint64_t a = 0;
    std::uint32_t b = 0;
    std::memcpy(&a, at, sizeof a);
    std::memcpy(&b, small_at, sizeof b);
    return std::pair(a, b);
  };
  EXPECT_EQ(there(), std::pair(std::uint64_t{7}, std::uint32_t{3}));
  EXPECT_EQ(sent, 16u) << "in whole words";
  EXPECT_EQ(there(), std::pair(std::uint64_t{7}, std::uint32_t{3}));
  EXPECT_EQ(sent, 16u) << "nothing changed";
  small = 4;
  EXPECT_EQ(there(), std::pair(std::uint64_t{7}, std::uint32_t{4}));
  EXPECT_EQ(sent, 32u);
  EXPECT_EQ(memory::stats(gpu).to_device.count, 2u);
  EXPECT_EQ(memory::stats(gpu).to_device.bytes, 32u);
  params.check();
  EXPECT_EQ(checks, 1);
}

// The block is one of the device's: a stream that writes it waits for those that read it.
TEST_F(ReplayParameters, AreSentBehindTheReplaysThatReadThem) {
  ReplayParams params(gpu);
  std::uint64_t value = 0;
  params.add(sizeof value, [&](void* to) { std::memcpy(to, &++value, sizeof value); });
  params.update();
  params.send();
  EXPECT_TRUE(waits.empty());
  const StreamScope scope(Stream(1));
  params.update();
  params.send();
  EXPECT_EQ(waits, (std::set<std::pair<int, int>>{{0, 1}}));
}

TEST_F(ReplayParameters, FitOneBlock) {
  constexpr std::size_t most = 8192 * sizeof(std::uint64_t);
  const auto nothing = [](void*) {};
  ReplayParams params(gpu);
  params.add(most - 8, nothing);
  params.add(5, nothing);
  EXPECT_THROWS_SAYING(
      params.add(1, nothing), CaptureError,
      "a captured step has too many optimizers and generators: what changes from step to step must fit "
      "65536 bytes");
  EXPECT_EQ(memory::stats(gpu).allocated.current, most);
}

}  // namespace
}  // namespace bytetape
