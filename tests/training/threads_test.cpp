// Threads that train models of their own.
#include <map>
#include <optional>
#include <thread>
#include <tuple>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

constexpr std::uint32_t steps = 30;

/// What a net with dropout is after a few steps on random numbers, all from a generator of its own. The steps are
/// marked from `seed` * 100 on; the first is the model's making.
std::vector<std::vector<float>> train(std::uint64_t seed) {
  Generator generator(seed);
  const DefaultGenerator scope(generator);
  const std::uint32_t first_step = static_cast<std::uint32_t>(seed) * 100;
  std::optional<memory::Step> step(std::in_place, Device::cpu(), first_step);  // also of what is made, and of its end
  nn::Sequential net(nn::Linear(20, 32), nn::ReLU(), nn::Dropout(0.3), nn::Linear(32, 5));
  optim::Adam adam(net.parameters());
  for (std::uint32_t i = 0; i < steps; ++i) {
    step.reset();
    step.emplace(Device::cpu(), first_step + 1 + i);
    adam.zero_grad();
    cross_entropy(net(randn({16, 20})), randint(0, 5, {16})).backward();
    adam.step();
  }
  std::vector<std::vector<float>> all;
  for (const Tensor& p : net.parameters()) all.push_back(p.to_vector<float>());
  return all;
}

using Happened = std::tuple<memory::EventKind, std::uint64_t, memory::NameId, memory::NameId, memory::Phase>;
/// What happened to memory in each step, but for where.
std::map<std::uint32_t, std::vector<Happened>> steps_so_far() {
  std::map<std::uint32_t, std::vector<Happened>> all;
  const memory::Snapshot s = memory::snapshot(Device::cpu());
  EXPECT_EQ(s.dropped, 0u);
  for (const memory::Event& e : s.events)
    if (e.step && e.kind != memory::EventKind::segment_alloc)
      all[e.step].emplace_back(e.kind, e.requested, e.module, e.op, e.phase);
  return all;
}

TEST(TrainingThreads, WithGeneratorsOfTheirOwnGiveTheResultsOfOneAfterTheOther) {
  const PhiloxState shared = default_generator().state();
  memory::reset_log(Device::cpu());
  const auto first = train(1), second = train(2);
  const auto one_after_the_other = steps_so_far();
  EXPECT_EQ(one_after_the_other.size(), 2 * (1 + steps));
  EXPECT_NE(first, second);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<float>> a, b;
    memory::reset_log(Device::cpu());
    std::thread one([&] { a = train(1); }), other([&] { b = train(2); });
    one.join();
    other.join();
    EXPECT_EQ(a, first);
    EXPECT_EQ(b, second);
    EXPECT_TRUE(steps_so_far() == one_after_the_other) << "too long to print";
  }
  EXPECT_EQ(default_generator().state().offset, shared.offset);
}

}  // namespace
}  // namespace bytetape
