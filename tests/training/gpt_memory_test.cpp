// Memory of training GPT-2 124M on a GPU, predicted without one.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "bytetape/bytetape.h"
#include "examples/gpt/weights.h"

namespace bytetape::test {
namespace {

/// A training step on batches of 1,024 tokens, in bf16. The gradients of several batches may be added up.
struct Training {
  nn::MemoryOptions memory_options;
  std::int64_t batches;
  examples::Gpt model{examples::published_sizes().at("124m")};
  optim::AdamW adamw{model.parameters()};
  Tensor tokens, targets;

  explicit Training(std::int64_t batch_size, const nn::MemoryOptions& options = {}, std::int64_t batches = 1)
      : memory_options(options),
        batches(batches),
        tokens(empty({batch_size, 1024}, DType::i64)),
        targets(empty({batch_size, 1024}, DType::i64)) {
    memory_options.apply(model);
  }
  void operator()() {
    const Autocast autocast(DType::bf16);
    std::optional<Recompute> recompute;
    if (memory_options.recompute) recompute.emplace();
    adamw.zero_grad();
    for (std::int64_t i = 0; i < batches; ++i) model.loss(tokens, targets).backward();
    adamw.step();
  }
};

std::size_t peak(const memory::Prediction& p) { return p.steps.back().allocated; }

TEST(Gpt2Memory, OfBatch16FitsIntoHalf) {
  const memory::Prediction whole = memory::predict(Device::cuda(), [] { return Training(16); });
  ASSERT_TRUE(whole.is_settled());
  const nn::Fit f = nn::fit(Device::cuda(), peak(whole) / 2, [](const nn::MemoryOptions& o) { return Training(16, o); },
                            {.offload = false});
  EXPECT_TRUE(f.fits()) << f.text();
  EXPECT_LT(f.recompute_fraction, 0.5);
}

TEST(Gpt2Memory, IsTwoFifthsOfPyTorchsUnderRecompute) {
  const memory::Prediction p = memory::predict(Device::cuda(), [] { return Training(16, {.recompute = true}); });
  ASSERT_TRUE(p.is_settled());
  EXPECT_LT(static_cast<double>(peak(p)), 0.4 * 15.6e9);
}

TEST(Gpt2Memory, GrowsLessPerTokenThanThatOfLlmC) {
  const auto at = [](std::int64_t n) { return peak(memory::predict(Device::cuda(), [n] { return Training(n); })); };
  const std::size_t per_token = (at(16) - at(8)) / (8 * 1024);
#ifdef BYTETAPE_WITHOUT_CUDNN
  EXPECT_LT(per_token, 340000u) << "attention made of products has another workspace";
#else
  EXPECT_LT(per_token, 339468u) << "llm.c, with GELU recomputed";
#endif
  EXPECT_GT(per_token, 200000u);
}

TEST(Gpt2Memory, GrowsByNoGradientIfBatchesAreAddedUp) {
  const auto of = [](std::int64_t batches) {
    return peak(memory::predict(Device::cuda(), [batches] { return Training(8, {}, batches); }));
  };
  const std::size_t one = of(1), gradients = 124439808 * sizeof(float), small = 16 << 20;
  EXPECT_EQ(of(3), of(2));
  EXPECT_LT(of(2), one + gradients + small) << "a step of one batch frees them before its forward";
  EXPECT_GE(of(2), one);
}

}  // namespace
}  // namespace bytetape::test
