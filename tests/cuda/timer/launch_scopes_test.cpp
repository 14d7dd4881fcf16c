#include "bytetape/cuda/timer/launch_scopes.h"

#include <gtest/gtest.h>

namespace bytetape::cuda {
namespace {

using memory::Phase;

memory::TimedWork timed_work_of(const LaunchScopes& scopes, std::uint32_t launch, std::uint64_t node = 0) {
  memory::TimedWork work;
  EXPECT_TRUE(scopes.attribute(launch, node, work));
  return work;
}
memory::DeviceWork work_of(const LaunchScopes& scopes, std::uint32_t launch, std::uint64_t node = 0) {
  return timed_work_of(scopes, launch, node).work;
}
/// Step `number` of a GPU.
memory::TimedStep gpu_step(std::uint32_t number) { return {Device::cuda(1), number}; }

TEST(LaunchScopes, AreThoseOfTheLaunch) {
  LaunchScopes scopes;
  scopes.add_launch(5, {{.module = 1, .op = 2, .phase = Phase::backward}, gpu_step(7)});
  scopes.add_launch(
      5, {{.module = 1, .op = 2, .phase = Phase::backward}, gpu_step(7)});  // the driver's call in the runtime's
  const memory::DeviceWork work = work_of(scopes, 5);
  EXPECT_EQ(work.module, 1u);
  EXPECT_EQ(work.op, 2u);
  EXPECT_EQ(work.phase, Phase::backward);
  EXPECT_EQ(timed_work_of(scopes, 5).step.number, 7u);
  EXPECT_EQ(timed_work_of(scopes, 5).step.device, Device::cuda(1));
  memory::TimedWork other;
  EXPECT_FALSE(scopes.attribute(6, 0, other)) << "it is not of a timed step";
}

TEST(LaunchScopes, OfAGraphAreThoseOfItsNodes) {
  LaunchScopes scopes;
  scopes.add_node(100, {.module = 3, .op = 4, .phase = Phase::forward});
  scopes.add_copy(200, 100);
  scopes.add_copy(201, 101);
  scopes.add_launch(9, {{.op = 8, .phase = Phase::forward}, gpu_step(2)});
  EXPECT_EQ(work_of(scopes, 9, 200).op, 4u);
  EXPECT_EQ(work_of(scopes, 9, 200).module, 3u);
  EXPECT_EQ(timed_work_of(scopes, 9, 200).step.number, 2u) << "the step that launched the graph";
  EXPECT_EQ(work_of(scopes, 9, 201).op, 8u) << "recorded before: the op that launched it";
  scopes.clear();
  memory::TimedWork work;
  EXPECT_FALSE(scopes.attribute(9, 200, work));
}

TEST(LaunchScopes, ForgetTheOldest) {
  LaunchScopes scopes;
  for (std::uint32_t i = 0; i <= LaunchScopes::most_launches; ++i) scopes.add_launch(i, {{}, gpu_step(1)});
  memory::TimedWork work;
  EXPECT_FALSE(scopes.attribute(0, 0, work));
  EXPECT_TRUE(scopes.attribute(1, 0, work));
}

TEST(LaunchScopes, ForgetTheOldestNodes) {
  LaunchScopes scopes;
  scopes.add_launch(1, {{.op = 8}, gpu_step(1)});
  scopes.add_node(1, {.op = 2});
  for (std::uint64_t i = 0; i < LaunchScopes::most_nodes; ++i) scopes.add_copy(2 + i, i ? 1 + i : 1);
  EXPECT_EQ(work_of(scopes, 1, 1).op, 8u) << "the launcher's, like a node that was recorded before";
  EXPECT_EQ(work_of(scopes, 1, 2).op, 2u);
  EXPECT_EQ(work_of(scopes, 1, 1 + LaunchScopes::most_nodes).op, 2u);
}

}  // namespace
}  // namespace bytetape::cuda
