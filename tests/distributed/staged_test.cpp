// Collectives by way of the host, on a device whose memory is the host's.
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/distributed/ranks.h"
#include "tests/support/expect.h"
#include "tests/support/stand_in.h"

namespace bytetape {
namespace {

using dist::Group;
using test::elements;
using test::values_of_all;
using test::world;

/// A new group of all ranks, because a group keeps the connection of a device.
Group new_group() {
  const Group all = world();
  return all.split(std::vector<int>(static_cast<std::size_t>(all.size())));
}

TEST(Staged, CollectivesAgreeWithTheCpus) {
  const test::StandIn device;
  const Group group = new_group();
  const auto here = static_cast<std::size_t>(group.rank());
  for (const Shape& shape : {Shape{0}, Shape{24}, Shape{24, 103}}) {
    const Tensor x = values_of_all(group, shape)[here], there = to(x, Device::cuda());
    EXPECT_EQ(elements(dist::all_reduce(there, group)), elements(dist::all_reduce(x, group)));
    EXPECT_EQ(elements(dist::all_gather(there, group)), elements(dist::all_gather(x, group)));
    if (shape[0] == 0) continue;
    EXPECT_EQ(elements(dist::reduce_scatter(there, group)), elements(dist::reduce_scatter(x, group)));
    EXPECT_EQ(elements(dist::all_to_all(there, group)), elements(dist::all_to_all(x, group)));
  }
}

TEST(Staged, CollectivesMayShareMemory) {
  const test::StandIn device;
  const Group group = new_group();
  const Tensor x = values_of_all(group, {24, 5})[static_cast<std::size_t>(group.rank())];
  const std::int64_t part = 24 / group.size(), begin = part * group.rank();
  const Tensor there = to(x, Device::cuda()), own = narrow(there, 0, begin, part);
  dist::reduce_scatter_into(own, there, group);
  EXPECT_EQ(elements(own), elements(dist::reduce_scatter(x, group)));
  dist::all_gather_into(there, own, group);
  EXPECT_EQ(elements(there), elements(dist::all_reduce(x, group)));
  dist::all_reduce_(there, group);
  EXPECT_EQ(elements(there), elements(dist::all_reduce(x, group) * static_cast<double>(group.size())));
}

}  // namespace
}  // namespace bytetape
