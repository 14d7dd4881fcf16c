// A GPT trains to the same bits each time, with dropout, in 16 bits, and as a captured step.
#include <vector>

#include "bytetape/bytetape.h"
#include "examples/gpt/model.h"
#include "tests/support/device.h"
#include "tests/support/expect.h"

namespace bytetape::test {
namespace {

/// The losses of six steps and the parameters after them.
std::vector<std::vector<double>> train(bool captures) {
  manual_seed(5);
  examples::Gpt model({.vocabulary = 300, .context = 128, .layers = 2, .heads = 2, .width = 128, .dropout = 0.1});
  optim::AdamW adamw(model.parameters(), {.lr = 1e-3});
  const auto step = [&](const Tensor& x, const Tensor& y) {
    const Autocast autocast(DType::bf16);
    adamw.zero_grad();
    const Tensor loss = model.loss(x, y);
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1);
    adamw.step();
    return loss.detach();
  };
  auto captured = capture(step);
  const Tensor x = randint(0, 300, {3, 100}), y = randint(0, 300, {3, 100});
  std::vector<std::vector<double>> all;
  for (int i = 0; i < 6; ++i) all.push_back((captures ? captured(x, y) : step(x, y)).to_vector<double>());
  EXPECT_EQ(captured.is_captured(), captures && default_device().type == DeviceType::cuda);
  for (const Tensor& p : model.parameters()) all.push_back(p.detach().to_vector<double>());
  return all;
}

TEST(Gpt, HasTheSameBitsInTwentyRunsAndCaptured) {
  for (const Device device : {Device::cpu(), own_gpu()}) {
    if (!is_available(device)) continue;
    const DefaultDevice here(device);
    const auto once = train(false);
    EXPECT_LT(once[5][0], once[0][0]) << "it learns";
    const int runs = device.type == DeviceType::cuda ? 20 : 3;
    for (int run = 1; run < runs; ++run)
      for (const bool captures : {false, true}) ASSERT_EQ(train(captures), once) << device << ", run " << run;
  }
}

}  // namespace
}  // namespace bytetape::test
