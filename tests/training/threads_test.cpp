// Threads that train models of their own.
#include <thread>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

/// What a net with dropout is after a few steps on random numbers, all from a generator of its own.
std::vector<std::vector<float>> train(std::uint64_t seed) {
  Generator generator(seed);
  const DefaultGenerator scope(generator);
  nn::Sequential net(nn::Linear(20, 32), nn::ReLU(), nn::Dropout(0.3), nn::Linear(32, 5));
  optim::Adam adam(net.parameters());
  for (int i = 0; i < 30; ++i) {
    adam.zero_grad();
    cross_entropy(net(randn({16, 20})), randint(0, 5, {16})).backward();
    adam.step();
  }
  std::vector<std::vector<float>> all;
  for (const Tensor& p : net.parameters()) all.push_back(p.to_vector<float>());
  return all;
}

TEST(TrainingThreads, WithGeneratorsOfTheirOwnGiveTheResultsOfOneAfterTheOther) {
  const PhiloxState shared = default_generator().state();
  const auto first = train(1), second = train(2);
  EXPECT_NE(first, second);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<float>> a, b;
    std::thread one([&] { a = train(1); }), other([&] { b = train(2); });
    one.join();
    other.join();
    EXPECT_EQ(a, first);
    EXPECT_EQ(b, second);
  }
  EXPECT_EQ(default_generator().state().offset, shared.offset);
}

}  // namespace
}  // namespace bytetape
