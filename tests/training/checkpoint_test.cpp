// A captured step whose model has checkpoints, against the same steps as they are, on a device whose kernels are the
// CPU's.
#include "bytetape/autograd/checkpoint.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/stand_in.h"
#include "tests/training/deferred.h"

namespace bytetape {
namespace {

/// What eight steps come to.
std::vector<std::vector<float>> train(bool checkpoints, bool captured) {
  const DefaultDevice here(Device::cuda());
  manual_seed(9);
  nn::Sequential first(nn::Linear(6, 32), nn::ReLU(), nn::Dropout(0.25)), last(nn::Linear(32, 4));
  std::vector<Tensor> parameters = first.parameters();
  for (const Tensor& p : last.parameters()) parameters.push_back(p);
  optim::Adam adam(parameters, {.lr = 0.01});
  const auto step = [&](const Tensor& x, const Tensor& y) {
    adam.zero_grad();
    const Tensor h = checkpoints ? checkpoint([&](const Tensor& t) { return first(t); }, x) : first(x);
    Tensor loss = cross_entropy(last(h), y);
    loss.backward();
    adam.step();
    return loss.detach();
  };
  auto captured_step = capture(step);
  std::vector<std::vector<float>> left;
  for (int i = 0; i < 8; ++i) {
    const Tensor x = randn({10, 6}), y = randint(0, 4, 10);
    left.push_back((captured ? captured_step(x, y) : step(x, y)).to_vector<float>());
  }
  EXPECT_EQ(captured_step.is_captured(), captured);
  for (const Tensor& p : parameters) left.push_back(p.detach().to_vector<float>());
  left.push_back({static_cast<float>(default_generator().state().offset)});
  return left;
}

TEST(CheckpointedTraining, IsCapturedBitForBit) {
  const test::StandIn stand_in(test::deferred_backend());
  const auto plain = train(false, false);
  EXPECT_EQ(train(true, false), plain);
  EXPECT_EQ(train(true, true), plain);
  EXPECT_EQ(test::allocated(Device::cuda()), 0u);
}

}  // namespace
}  // namespace bytetape
