// What is saved goes to pinned memory and comes back beside the step's own work. The rules of it are in
// tests/autograd/save_on_cpu_test.cpp.
#include "bytetape/autograd/save_on_cpu.h"

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"
#include "tests/cuda/gpu.h"
#include "tests/support/memory.h"

namespace bytetape::test {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

class CudaSaveOnCpu : public GpuTest {
 protected:
  static nn::Sequential net() {
    nn::Sequential all;
    for (int i = 0; i < 10; ++i) {
      all.push_back(nn::Conv2d(i ? 32 : 3, 32, 3, {.padding = 1}));
      all.push_back(nn::BatchNorm2d(32));
      all.push_back(nn::ReLU());
    }
    return all;
  }
  /// Loss and gradients of some steps.
  static std::vector<float> train(const SaveOnCpuOptions& options) {
    const DefaultDevice here(gpu);
    manual_seed(7);
    nn::Sequential model = net();
    optim::SGD sgd(model.parameters(), {.lr = 0.01});
    std::vector<float> values;
    for (int i = 0; i < 3; ++i) {
      sgd.zero_grad();
      Tensor loss;
      {
        const SaveOnCpu offload(options);
        const Tensor y = model(randn({32, 3, 64, 64}));
        loss = mean(y * y);
      }
      loss.backward();
      sgd.step();
      values.push_back(loss.item<float>());
    }
    for (const Tensor& p : model.parameters())
      for (const float v : p.grad().to_vector<float>()) values.push_back(v);
    return values;
  }
};

TEST_F(CudaSaveOnCpu, GivesTheSameBitsInLessMemory) {
  const auto measured = [&](const SaveOnCpuOptions& options) {
    memory::reset_peaks(gpu);
    const auto values = train(options);
    return std::pair(values, memory::stats(gpu).allocated.peak);
  };
  const auto [expected, plain] = measured({.keep = SaveOnCpuOptions::everything});
  for (const std::size_t keep : {std::size_t{0}, 40 * mib, 100 * mib})
    for (int i = 0; i < 3; ++i) {
      const auto [values, peak] = measured({.keep = keep});
      EXPECT_EQ(values, expected) << keep;
      EXPECT_LT(peak, plain) << keep;
    }
  synchronize(gpu);
  EXPECT_EQ(memory::pinned_for(gpu)->allocator().statistics().allocated.current, 0u);
}

TEST_F(CudaSaveOnCpu, IsRefusedInAStepThatIsCaptured) {
  const DefaultDevice here(gpu);
  nn::Sequential model = net();
  auto step = capture([&](const Tensor& x) {
    const SaveOnCpu offload({.keep = 16 * mib});
    const Tensor loss = mean(model(x));
    loss.backward();
    model.zero_grad();
    return loss;
  });
  const Tensor x = randn({32, 3, 64, 64});
  step(x);
  step(x);
  EXPECT_THROW(step(x), CaptureError);
}

}  // namespace
}  // namespace bytetape::test
