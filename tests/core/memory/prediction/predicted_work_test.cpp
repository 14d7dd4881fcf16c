// The work that predictions count.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/predict.h"
#include "bytetape/core/memory/work.h"

namespace bytetape {
namespace {

using memory::Prediction;

/// A training loop whose first layer, of path "0", has a product of 2 * 64 * 256 operations for each row.
struct Training {
  nn::Sequential net{nn::Linear(64, 256), nn::ReLU(), nn::Linear(256, 10)};
  std::int64_t batch = 32;

  void operator()() {
    const memory::Step step;
    net.zero_grad();
    cross_entropy(net(randn({batch, 64})), randint(0, 10, batch)).backward();
  }
};

std::uint64_t flop(const Prediction& p, memory::Phase phase) {
  std::uint64_t sum = 0;
  for (const memory::WorkCount& w : p.work)
    if (memory::plain_path(w.module) == "0" && w.phase == phase) sum += w.flop;
  return sum;
}

TEST(PredictedWork, IsThatOfAPeriod) {
  constexpr std::uint64_t product = 2 * 32 * 64 * 256;
  for (const int steps : {1, 3}) {
    const Prediction p =
        memory::predict(Device::cpu(), [] { return Training(); }, {.min_steps = steps, .max_steps = steps});
    EXPECT_EQ(flop(p, memory::Phase::forward), product);
    EXPECT_EQ(flop(p, memory::Phase::backward), product) << "of the weight; the input needs no gradient";
  }
  const Prediction alternating = memory::predict(Device::cpu(), [] {
    return [training = std::make_shared<Training>(), step = 0]() mutable {
      training->batch = step++ % 2 ? 32 : 16;
      (*training)();
    };
  });
  ASSERT_EQ(alternating.period, 2u);
  EXPECT_EQ(flop(alternating, memory::Phase::forward), product + product / 2);
}

TEST(PredictedWork, IsThatOfReplays) {
  const Prediction p = memory::predict(Device::cuda(), [] {
    auto net = std::make_shared<nn::Linear>(64, 256);
    const auto loss = [net](const Tensor& x) {
      net->zero_grad();
      const Tensor y = sum((*net)(x));
      y.backward();
      return y.detach();
    };
    return [net, captured = std::make_shared<CapturedStep<decltype(loss)>>(loss)] {
      const memory::Step step;
      (*captured)(empty({32, 64}));
    };
  });
  std::uint64_t sum = 0;
  for (const memory::WorkCount& w : p.work) sum += w.flop;
  EXPECT_EQ(sum, 2 * 2u * 32 * 64 * 256) << "forward and the gradient of the weight";
}

TEST(PredictedWork, IsNotCountedAfterThePrediction) {
  memory::predict(Device::cpu(), [] { return Training(); });
  EXPECT_THROW(memory::predict(Device::cpu(), []() -> std::function<void()> { fail<ValueError>("not today"); }),
               ValueError);
  EXPECT_EQ(memory::work_counters.load(), 0);
  EXPECT_EQ(memory::ambient.predicted_work, nullptr);
}

}  // namespace
}  // namespace bytetape
