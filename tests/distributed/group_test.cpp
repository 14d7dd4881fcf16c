#include "bytetape/distributed/group.h"

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/predict.h"
#include "tests/distributed/ranks.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using dist::Group;
using test::elements;
using test::world;

TEST(Group, NumbersItsRanks) {
  const Group group = world();
  const Tensor ranks = dist::all_gather(full({1}, group.rank(), DType::i64), group);
  EXPECT_EQ(elements(ranks), elements(arange(group.size())));
  EXPECT_FALSE(group.is_simulated());
  EXPECT_EQ(world().size(), group.size());
}

TEST(Group, SplitsByColour) {
  const Group group = world();
  std::vector<int> colours;
  for (int r = 0; r < group.size(); ++r) colours.push_back(r % 2);
  const Group half = group.split(colours);
  std::vector<double> members;
  for (int r = group.rank() % 2; r < group.size(); r += 2) members.push_back(r);
  EXPECT_EQ(half.size(), static_cast<int>(members.size()));
  EXPECT_EQ(half.rank(), group.rank() / 2);
  EXPECT_EQ(elements(dist::all_gather(full({1}, group.rank(), DType::f64), half)), members);

  const Group alone = half.split([&] {
    std::vector<int> own;
    for (int r = 0; r < half.size(); ++r) own.push_back(r);
    return own;
  }());
  EXPECT_EQ(alone.size(), 1);
  EXPECT_EQ(alone.world_ranks(), (std::vector<int>{group.rank()}));
  EXPECT_EQ(elements(dist::all_gather(full({1}, group.rank(), DType::f64), group)), elements(arange(group.size())));
}

TEST(Group, RefusesColoursOfOtherRanks) {
  const Group group = world();
  EXPECT_THROWS_SAYING(group.split(std::vector<int>(static_cast<std::size_t>(group.size()) + 1)), ValueError,
                       "a colour for each");
}

TEST(Group, RefusesATimeoutOfZero) {
  EXPECT_THROWS_SAYING(dist::init(std::chrono::milliseconds(0)), ValueError, "timeout");
}

TEST(Group, IsSimulatedInAPrediction) {
  int size = 0, rank = -1;
  const auto program = [&] {
    const Group group = dist::init();
    size = group.size();
    rank = group.rank();
    EXPECT_TRUE(group.is_simulated());
    EXPECT_THROWS_SAYING(dist::all_reduce(zeros({2}, DType::f32, Device()), group), DeviceError, "predicted group");
    return [group] { dist::all_reduce(empty({1000}), group); };
  };
  memory::predict({}, program, {.world_size = 8, .rank = 3});
  EXPECT_EQ(size, 8);
  EXPECT_EQ(rank, 3);
  EXPECT_EQ(world().is_simulated(), false);
  const auto none = [] { return [] {}; };
  EXPECT_THROWS_SAYING(memory::predict({}, none, {.world_size = 2, .rank = 2}), ValueError, "rank 2 of 2");
  EXPECT_THROWS_SAYING(memory::predict({}, none, {.rank = 1}), ValueError, "rank 1 of 0");
  EXPECT_THROWS_SAYING(memory::predict({}, none, {.world_size = -1}), ValueError, "of -1");
}

}  // namespace
}  // namespace bytetape
