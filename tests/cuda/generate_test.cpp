// Generation on a GPU: in captured steps, as on the CPU, and as predicted.
#include "bytetape/nn/generate.h"

#include "bytetape/bytetape.h"
#include "examples/gpt/model.h"
#include "tests/cuda/gpu.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"

namespace bytetape::test {
namespace {

using examples::Gpt;
using Tokens = std::vector<std::int64_t>;

struct Generating {
  Gpt model;
  nn::KeyValueCache cache;
  int calls = 0;

  /// On the default device.
  explicit Generating(DType dtype)
      : model({.vocabulary = 50, .context = 40, .layers = 2, .heads = 4, .width = 32}),
        cache(model.cache_sizes(3, dtype)) {
    model.eval();
  }
  Tensor operator()(const Tensor& prompts, const nn::GenerateOptions& options) {
    const auto step = [&](const Tensor& tokens, nn::KeyValueCache& c) {
      ++calls;
      return model(tokens, c);
    };
    return nn::generate(step, cache, prompts, options);
  }
};
Tensor prompts() { return from_vector(Tokens{1, 2, 3, 4, 5, 0, 0, 0, 6, 7, 0, 0}, {3, 4}, Device::cpu()); }

Tokens generated(Device device, nn::GenerateOptions options) {
  const DefaultDevice here(device);
  manual_seed(4);
  Generating generating(DType::f32);
  Generator generator(3);
  options.generator = &generator;
  options.lengths = {4, 1, 2};
  const Tokens all = generating(to(prompts(), device), options).to_vector<std::int64_t>();
  EXPECT_EQ(generating.calls, device.type == DeviceType::cuda ? 4 : options.max_new_tokens);  // the fourth is recorded
  return all;
}

using CudaGenerate = GpuTest;
TEST_F(CudaGenerate, GivesTheCpusTokensInCapturedSteps) {
  for (const nn::GenerateOptions& o : {nn::GenerateOptions{.max_new_tokens = 30, .temperature = 0},
                                       {.max_new_tokens = 30},
                                       {.max_new_tokens = 30, .top_k = 5, .top_p = 0.9}})
    EXPECT_EQ(generated(gpu, o), generated(Device::cpu(), o));
}

TEST_F(CudaGenerate, ShowsEachToken) {
  std::vector<Tokens> shown;
  nn::GenerateOptions options{.max_new_tokens = 12, .temperature = 0};
  options.on_tokens = [&](const Tokens& tokens) { shown.push_back(tokens); };
  const Tokens all = generated(gpu, options);
  ASSERT_EQ(shown.size(), 12u);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(shown[i % 12][i / 12], all[i]);
}

TEST_F(CudaGenerate, IsPredictedToTheByte) {
  for (const bool is_low : {false, true}) {
    const DType dtype = is_low ? DType::bf16 : DType::f32;
    const auto program = [&](Device device) {
      const DefaultDevice here(device);
      const Autocast autocast(dtype);
      Generating generating(dtype);
      generating(to(prompts(), device), {.max_new_tokens = 8, .top_k = 5});
    };
    EXPECT_EQ(first_difference(record_events(gpu, program), record_events(Device::meta(gpu), program)), "");
  }
}

}  // namespace
}  // namespace bytetape::test
