// Ranks with torchrun's environment: sockets connect them, and carry no tensors. run_as_torchrun starts them.
#include "bytetape/core/factories.h"
#include "bytetape/distributed/launcher.h"
#include "tests/distributed/ranks.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

class Torchrun : public testing::Test {
 protected:
  void SetUp() override {
    if (dist::read_launch().launcher != "torchrun") GTEST_SKIP() << "torchrun has not started this process";
  }
};

TEST_F(Torchrun, RanksAgree) {
  const dist::Group group = test::world();
  for (int i = 0; i < 50; ++i) {
    const int from = i % group.size();
    EXPECT_TRUE(dist::any_rank(group.rank() == from, group));
    EXPECT_FALSE(dist::any_rank(false, group));
    dist::barrier(group);
  }
}

TEST_F(Torchrun, GroupsMayBeSplit) {
  const dist::Group group = test::world();
  std::vector<int> colours;
  for (int r = 0; r < group.size(); ++r) colours.push_back(r % 2);
  const dist::Group half = group.split(colours);
  EXPECT_EQ(dist::any_rank(group.rank() == 1, half), group.rank() % 2 == 1);
}

TEST_F(Torchrun, TensorsOfTheCpuNeedMpi) {
  const dist::Group group = test::world();
  if (group.size() == 1) return;
  EXPECT_THROWS_SAYING(dist::all_reduce(zeros({2}), group), DeviceError, "start the program with mpirun");
}

}  // namespace
}  // namespace bytetape
