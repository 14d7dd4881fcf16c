#include <gtest/gtest.h>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape::nn {
namespace {

struct Block : Module {
  Linear a{64, 256}, b{256, 64};
  Dropout dropout{0.3};
  Block() {
    register_module("a", a);
    register_module("b", b);
    register_module("dropout", dropout);
  }
  Tensor forward(const Tensor& x) override { return x + dropout(b(tanh(sigmoid(tanh(sigmoid(tanh(a(x)))))))); }
};

struct Result {
  std::vector<Tensor> grads;
  std::size_t peak;
};

Result step(const std::vector<std::string>& checkpointed) {
  manual_seed(3);
  Sequential net(Block(), Block(), Block(), Linear(64, 4));
  checkpoint_modules(net, checkpointed);
  const Tensor x = randn({512, 64});
  memory::reset_peaks(Device::cpu());
  const std::size_t before = test::allocated();
  sum(net(x) * 0.1).backward();
  Result r;
  r.peak = test::statistics().allocated.peak - before;
  for (const Tensor& p : net.parameters()) r.grads.push_back(p.grad());
  return r;
}

TEST(CheckpointedModules, GiveTheSameBitsInLessMemory) {
  const Result plain = step({}), less = step({"0", "1", "2"}), one = step({"1"});
  for (std::size_t i = 0; i < plain.grads.size(); ++i) {
    EXPECT_TRUE(test::all_close(less.grads[i], plain.grads[i], 0, 0)) << i;
    EXPECT_TRUE(test::all_close(one.grads[i], plain.grads[i], 0, 0)) << i;
  }
  EXPECT_LT(less.peak, one.peak);
  EXPECT_LT(one.peak, plain.peak);
}

TEST(CheckpointedModules, AreThoseThatAreNamed) {
  Sequential net;
  net.push_back(Block());
  net.push_back(Block());
  checkpoint_modules(net, {"0.a", "1"});
  EXPECT_TRUE(net[1].is_checkpointed());
  EXPECT_FALSE(net[0].is_checkpointed());
  EXPECT_THROWS_SAYING(checkpoint_modules(net, {"0", "2"}), ValueError, "Sequential has no module '2'");
  EXPECT_TRUE(net[1].is_checkpointed()) << "as it was";
  checkpoint_modules(net, {});
  EXPECT_FALSE(net[1].is_checkpointed());
  net.set_checkpointed();
  const Sequential moved = std::move(net);
  EXPECT_TRUE(moved.is_checkpointed());
}

TEST(CheckpointedModules, AreNotFusedWithTheLayerBehind) {
  Sequential net(Linear(8, 8), ReLU());
  const Tensor x = randn({4, 8}).set_requires_grad();
  const Tensor fused = net(x);
  net[0].set_checkpointed();
  const Tensor parts = net(x);
  EXPECT_TRUE(test::all_close(parts, fused, 0, 0));
  sum(parts).backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST(CheckpointedModules, KeepNothingWhereNothingIsRecorded) {
  Block block;
  block.set_checkpointed().eval();
  const NoGrad no_grad;
  EXPECT_FALSE(block(randn({2, 64})).requires_grad());
}

}  // namespace
}  // namespace bytetape::nn
