// Checkpoints on a GPU: the step's own bits, eager and captured, and its predicted bytes.
#include "bytetape/autograd/checkpoint.h"

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/events.h"
#include "tests/support/memory.h"

namespace bytetape::test {
namespace {

struct Net {
  nn::Sequential first{nn::Conv2d(3, 8, 3, {.padding = 1}), nn::BatchNorm2d(8), nn::ReLU(), nn::Dropout(0.25)},
      last{nn::Flatten(), nn::Linear(8 * 8 * 8, 5)};
  optim::SGD sgd{parameters(), {.lr = 0.05, .momentum = 0.9}};

  std::vector<Tensor> parameters() const {
    std::vector<Tensor> all = first.parameters();
    for (const Tensor& p : last.parameters()) all.push_back(p);
    return all;
  }
  Tensor step(const Tensor& x, const Tensor& y, bool checkpoints) {
    sgd.zero_grad();
    Tensor loss;
    {
      const Autocast autocast(DType::bf16);
      const Tensor h = checkpoints ? checkpoint([this](const Tensor& t) { return first(t); }, x) : first(x);
      loss = cross_entropy(last(h), y);
    }
    loss.backward();
    sgd.step();
    return loss.detach();
  }
};

std::vector<std::vector<float>> train(bool checkpoints, bool captured) {
  const DefaultDevice here(gpu);
  manual_seed(9);
  Net net;
  const auto step = [&](const Tensor& x, const Tensor& y) { return net.step(x, y, checkpoints); };
  auto captured_step = capture(step);
  std::vector<std::vector<float>> left;
  for (int i = 0; i < 8; ++i) {
    const Tensor x = randn({16, 3, 8, 8}), y = randint(0, 5, 16);
    left.push_back((captured ? captured_step(x, y) : step(x, y)).to_vector<float>());
  }
  EXPECT_EQ(captured_step.is_captured(), captured);
  for (const auto& [name, t] : net.first.state_dict()) left.push_back(t.detach().to_vector<float>());
  for (const Tensor& p : net.last.parameters()) left.push_back(p.detach().to_vector<float>());
  left.push_back({static_cast<float>(default_generator().state().offset)});
  return left;
}

class CudaCheckpoint : public GpuTest {};

TEST_F(CudaCheckpoint, IsTheStepBitForBit) {
  const auto plain = train(false, false);
  EXPECT_EQ(train(true, false), plain);
  EXPECT_EQ(train(true, true), plain);
  EXPECT_EQ(allocated(gpu), 0u);
}

TEST_F(CudaCheckpoint, IsPredictedToTheByte) {
  const auto program = [](Device device) {
    const DefaultDevice here(device);
    Net net;
    const Tensor x = zeros({16, 3, 8, 8}), y = zeros(16, DType::i64);
    for (int i = 0; i < 2; ++i) net.step(x, y, true);
  };
  EXPECT_EQ(first_difference(record_events(gpu, program), record_events(Device::meta(gpu), program)), "");
}

}  // namespace
}  // namespace bytetape::test
