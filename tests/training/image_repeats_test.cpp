// Convolution networks train to the same bits each time, in TF32 and in 16 bits, and as captured steps.
#include <functional>
#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "examples/cifar10/resnet.h"
#include "examples/mnist/models.h"
#include "tests/support/device.h"
#include "tests/training/repeats.h"

namespace bytetape::test {
namespace {

struct Training {
  std::string name;
  std::function<nn::Sequential()> make;
  Shape images;
  DType computed;
};

constexpr int steps = 4;  // a captured step is recorded by its third call

/// The losses of the steps, then the parameters and buffers after them.
std::vector<Tensor> train(const Training& run, bool captures) {
  manual_seed(5);
  nn::Sequential net = run.make();
  optim::Adam adam(net.parameters(), {.lr = 1e-4});
  const auto step = [&](const Tensor& x, const Tensor& y) {
    const Autocast autocast(run.computed);
    adam.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    adam.step();
    return loss.detach();
  };
  auto captured = capture(step);
  const Tensor x = randn(run.images), y = randint(0, 10, run.images[0]);
  std::vector<Tensor> all;
  for (int i = 0; i < steps; ++i) all.push_back(clone(captures ? captured(x, y) : step(x, y)));
  EXPECT_EQ(captured.is_captured(), captures && default_device().type == DeviceType::cuda);
  for (const Tensor& p : net.parameters()) all.push_back(p.detach());
  for (const auto& [name, b] : net.named_buffers()) all.push_back(b);
  return all;
}

void expect_all_repeat(const std::vector<Training>& all, int times) {
  for (const Training& run : all) {
    SCOPED_TRACE(run.name);
    expect_repeats([&](bool captures) { return train(run, captures); }, steps, times);
  }
}

const auto cnn = [] { return examples::mnist_cnn(); };
const auto resnet = [] { return examples::resnet18(); };
const auto small_resnet = [] { return examples::resnet18(8); };

TEST(ImageNetworks, HaveTheSameBitsInThreeRuns) {
  expect_all_repeat({{"cnn", cnn, {8, 1, 28, 28}, DType::f32},
                     {"resnet18", small_resnet, {4, 3, 32, 32}, DType::f32},
                     {"resnet18 in bf16", small_resnet, {4, 3, 32, 32}, DType::bf16}},
                    3);
}

TEST(CudaImageNetworks, HaveTheSameBitsInTwentyRunsAndCaptured) {
  if (!is_available(own_gpu())) GTEST_SKIP() << "there is no GPU";
  const DefaultDevice here(own_gpu());
  const bool before = cuda::allow_tf32();
  cuda::set_allow_tf32(true);
  expect_all_repeat({{"cnn, 64", cnn, {64, 1, 28, 28}, DType::f32},
                     {"cnn, 1,024", cnn, {1024, 1, 28, 28}, DType::f32},
                     {"resnet18, 128", resnet, {128, 3, 32, 32}, DType::bf16},
                     {"resnet18, 512", resnet, {512, 3, 32, 32}, DType::bf16},
                     {"resnet18, 512, in TF32", resnet, {512, 3, 32, 32}, DType::f32}},
                    20);
  cuda::set_allow_tf32(before);
}

}  // namespace
}  // namespace bytetape::test
