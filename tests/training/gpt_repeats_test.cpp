// A GPT trains to the same bits each time, with dropout, in 16 bits, and as a captured step.
#include <vector>

#include "bytetape/bytetape.h"
#include "examples/gpt/model.h"
#include "tests/support/device.h"
#include "tests/support/expect.h"
#include "tests/training/repeats.h"

namespace bytetape::test {
namespace {

struct Training {
  examples::GptSizes sizes;
  std::int64_t batch, tokens;
  int steps;  // a captured step is recorded by its third call
};

/// The losses of the steps and the parameters after them.
std::vector<Tensor> train(const Training& run, bool captures) {
  manual_seed(5);
  examples::Gpt model(run.sizes);
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
  const auto random = [&] { return randint(0, run.sizes.vocabulary, {run.batch, run.tokens}); };
  const Tensor x = random(), y = random();
  std::vector<Tensor> all;
  for (int i = 0; i < run.steps; ++i) all.push_back(clone(captures ? captured(x, y) : step(x, y)));
  EXPECT_EQ(captured.is_captured(), captures && default_device().type == DeviceType::cuda);
  for (const Tensor& p : model.parameters()) all.push_back(p.detach());
  return all;
}

void expect_training_repeats(const Training& run, int times) {
  expect_repeats([&](bool captures) { return train(run, captures); }, run.steps, times);
}

TEST(Gpt, HasTheSameBitsInTwentyRunsAndCaptured) {
  const Training small{
      {.vocabulary = 300, .context = 128, .layers = 2, .heads = 2, .width = 128, .dropout = 0.1}, 3, 100, 6};
  for (const Device device : {Device::cpu(), own_gpu()}) {
    if (!is_available(device)) continue;
    const DefaultDevice here(device);
    expect_training_repeats(small, device.type == DeviceType::cuda ? 20 : 3);
  }
}

TEST(CudaGpt, Of124MParametersHasTheSameBitsInTwentyRunsAndCaptured) {
  if (!is_available(own_gpu())) GTEST_SKIP() << "there is no GPU";
  const DefaultDevice here(own_gpu());
  const examples::GptSizes gpt2{
      .vocabulary = 50257, .context = 1024, .layers = 12, .heads = 12, .width = 768, .dropout = 0.1};
  expect_training_repeats({gpt2, 4, 1024, 4}, 20);
}

}  // namespace
}  // namespace bytetape::test
