// A training step on the meta device touches no data and asks for the same memory, event by event.
#include <gtest/gtest.h>

#include "bytetape/core/memory/replay.h"
#include "tests/support/events.h"
#include "tests/training/steps.h"

namespace bytetape {
namespace {

class MetaTraining : public ::testing::TestWithParam<const char*> {};

TEST_P(MetaTraining, HasTheEventsOfTheRealOne) {
  const auto program = [](Device device) {
    Steps training(GetParam(), device, 64);
    for (int i = 0; i < 3; ++i) training.step();
  };
  const auto on_cpu = test::record_events(Device::cpu(), program);
  const auto on_meta = test::record_events(Device::meta(), program);
  EXPECT_GT(on_cpu.size(), 100u);
  EXPECT_EQ(test::first_difference(on_cpu, on_meta), "");

  memory::Replay books;
  for (const memory::Event& e : on_cpu) books.apply(e);
  EXPECT_EQ(books.allocated(), 0u) << "everything came back";
}

INSTANTIATE_TEST_SUITE_P(Models, MetaTraining, ::testing::Values("mlp", "cnn"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace bytetape
