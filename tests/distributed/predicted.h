#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/distributed/net.h"
#include "tests/support/events.h"

namespace bytetape::test {

/// A batch for the net on the default device.
inline std::pair<Tensor, Tensor> random_batch() {
  const auto input = memory::Role::input;
  return {randn({per_rank, 1, 4, 4}, DType::f32, default_device(), default_generator(), input),
          randint(0, 8, {per_rank}, DType::i64, default_device(), default_generator(), input)};
}

/// Expects that the prediction for this rank has the events of three real steps. `make` makes everything that a rank
/// holds, from nothing, and returns a step.
inline void expect_predicted(const std::function<std::function<void()>()>& make) {
  set_num_threads(1);
  const auto real = record_events({}, [&](Device) {
    const auto step = make();
    for (int i = 0; i < 3; ++i) step();
  });
  const memory::PredictOptions options{.max_steps = 3, .world_size = world().size(), .rank = world().rank()};
  const auto simulated = memory::predict({}, make, options);
  const auto& events = simulated.snapshot.events;
  ASSERT_LE(events.size(), real.size());  // the real program also frees its memory
  const std::vector<memory::Event> same(real.begin(), real.begin() + static_cast<std::ptrdiff_t>(events.size()));
  EXPECT_EQ(first_difference(same, events), "");
  EXPECT_TRUE(simulated.is_settled());
}

}  // namespace bytetape::test
