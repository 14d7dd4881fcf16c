// ResNet-18 as the benchmarks train it: its blocks are made of batch norm that adds and activates in the same op.
#include "examples/cifar10/resnet.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/training.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(ResNet, HasPyTorchsParameters) {
  const DefaultDevice here(Device::meta());
  nn::Sequential net = examples::resnet18();
  std::int64_t count = 0;
  for (const Tensor& p : net.parameters()) count += p.numel();
  EXPECT_EQ(count, 11'173'962);
  EXPECT_EQ(net(zeros({2, 3, 32, 32})).shape(), (Shape{2, 10}));
}

TEST(ResNet, BlockIsItsPartsBitForBit) {
  for (const std::int64_t stride : {1, 2}) {
    examples::BasicBlock block(8, 8 * stride, stride);
    const Tensor x = randn({4, 8, 10, 10});
    const auto normalised = [](const Tensor& x, const nn::BatchNorm2d& bn) {
      return batch_norm(x, bn.weight, bn.bias, {}, {}, true);
    };
    const Tensor shortcut =
        stride == 1 ? x : normalised(conv2d(x, block.parameters()[6], {}, {.stride = stride}), block.bn2);
    const Tensor y = relu(normalised(block.conv1(x), block.bn1));
    const Tensor expected = relu(normalised(block.conv2(y), block.bn2) + shortcut);
    EXPECT_EQ(block(x).to_vector<float>(), expected.to_vector<float>());
  }
}

TEST(ResNet, Trains) {
  bench::Workload small = *std::find_if(bench::workloads().begin(), bench::workloads().end(),
                                        [](const bench::Workload& w) { return w.name == "resnet18_b32_fp32"; });
  small.batch = 4;
  small.data = bench::images(3, 16);
  manual_seed(1);
  bench::Training training(small);
  const auto first = training.step().item<double>();
  double last = first;
  for (int i = 0; i < 3; ++i) last = training.step().item<double>();
  EXPECT_LT(last, 0.5 * first);
}

TEST(ResNet, IsPredictedToTheByte) {
  const auto program = [](Device device) {
    const DefaultDevice here(device);
    bench::Workload tiny{"tiny", "fp32", 2, bench::resnet, bench::images(3, 8), bench::sgd};
    bench::Training training(tiny);
    for (int i = 0; i < 2; ++i) training.step();
  };
  EXPECT_EQ(
      test::first_difference(test::record_events(Device::cpu(), program), test::record_events(Device::meta(), program)),
      "");
}

}  // namespace
}  // namespace bytetape
