#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape::nn {
namespace {

using Paths = std::vector<std::string>;

/// A block whose first result, of a norm with an activation, only its second convolution saves.
struct Block : Module {
  Conv2d first{8, 8, 3, {.padding = 1}}, second{8, 8, 3, {.padding = 1}};
  BatchNorm2d norm{8};
  Block() {
    register_module("first", first), register_module("norm", norm);
    register_module("second", second);
  }
  Tensor forward(const Tensor& x) override { return second(norm(first(x), Activation::relu)); }
  /// A function that begins with a Call.
  std::pair<Tensor, int> counted(const Tensor& x) {
    const Call call(*this);
    return {forward(x), 1};
  }
};

constexpr std::size_t result_bytes = 4 * 8 * 16 * 16 * sizeof(float);

struct Result {
  std::vector<std::vector<float>> grads;
  std::size_t saved;
};

Result step(const Paths& recomputing, const Paths& checkpointed = {}) {
  manual_seed(3);
  Sequential net(Conv2d(3, 8, 3, {.padding = 1}), Block(), Block());
  recompute_modules(net, recomputing);
  checkpoint_modules(net, checkpointed);
  const Tensor y = sum(net(randn({4, 3, 16, 16})) * 0.1);
  Result r{.saved = test::held_as(memory::Role::saved)};
  y.backward();
  for (const Tensor& p : net.parameters()) r.grads.push_back(p.grad().to_vector<float>());
  return r;
}

TEST(RecomputingModules, GiveTheSameBitsInLessMemory) {
  const Result plain = step({});
  for (const auto& [paths, count] :
       {std::pair<Paths, std::size_t>{{"1"}, 1}, {{"1", "2"}, 2}, {{""}, 2}, {{"2.second"}, 1}, {{"1.norm"}, 0}}) {
    const Result less = step(paths);
    EXPECT_EQ(less.grads, plain.grads);
    EXPECT_EQ(plain.saved - less.saved, count * test::rounded(result_bytes));
  }
}

TEST(RecomputingModules, MayBeWithinCheckpointsAndAroundThem) {
  const Result plain = step({});
  EXPECT_EQ(step({""}, {"1"}).grads, plain.grads);
  EXPECT_EQ(step({"1"}, {"1"}).grads, plain.grads);
  EXPECT_EQ(step({"1.second"}, {"1", "2"}).grads, plain.grads);
  const std::size_t saved = step({}, {"1"}).saved;
  EXPECT_EQ(step({"1"}, {"1"}).saved, saved) << "the checkpoint keeps no results";
  EXPECT_EQ(saved - step({""}, {"1"}).saved, test::rounded(result_bytes)) << "of the other block";
}

TEST(RecomputingModules, AreThoseThatAreNamed) {
  Sequential net{Block(), Block()};
  recompute_modules(net, {"0", "1 Block"});
  EXPECT_TRUE(net[0].is_recomputing() && net[1].is_recomputing());
  EXPECT_FALSE(net.is_recomputing());
  EXPECT_THROWS_SAYING(recompute_modules(net, {"0", "2"}), ValueError,
                       "recompute_modules: Sequential has no module '2'");
  EXPECT_TRUE(net[1].is_recomputing()) << "as it was";
  recompute_modules(net, {"", "0.norm"});
  EXPECT_TRUE(net.is_recomputing());
  EXPECT_FALSE(net[0].is_recomputing());
  const Sequential moved = std::move(net);
  EXPECT_TRUE(moved.is_recomputing());
  EXPECT_TRUE(clone(moved).is_recomputing());
}

TEST(RecomputingModules, NeedNoFunctionThatCanBeRepeated) {
  Block block;
  const Tensor x = randn({4, 8, 16, 16});
  const auto saved = [&] {
    const std::size_t before = test::held_as(memory::Role::saved);
    const auto [y, count] = block.counted(x);
    return test::held_as(memory::Role::saved) - before;
  };
  const std::size_t plain = saved();
  block.set_recomputing();
  EXPECT_EQ(plain - saved(), test::rounded(result_bytes));
  EXPECT_FALSE(recomputing());
}

/// Bytes saved by a product with a tanh GELU and one more, on the meta device that stands for a GPU.
std::size_t saved_on_a_gpu(DType dtype, int how) {
  const DefaultDevice here(Device::meta(Device::cuda()));
  struct Mlp : Module {
    Linear up{64, 256}, down{256, 64};
    Mlp() { register_module("up", up), register_module("down", down); }
    Tensor forward(const Tensor& x) override { return down(up(x, Activation::gelu_tanh)); }
  } mlp;
  mlp.to(dtype);
  mlp.set_recomputing(how == 1);
  const auto held = [] {
    return memory::snapshot(default_device()).statistics.by_role[static_cast<std::size_t>(memory::Role::saved)].current;
  };
  const std::size_t before = held();
  Tensor y;
  if (how == 2) {
    const Recompute recompute;
    y = mlp(zeros({512, 64}, dtype));
  } else {
    y = mlp(zeros({512, 64}, dtype));
  }
  return held() - before;
}

TEST(RecomputingModules, KeepTheBitsOfActivationsThatTheDeviceApproximates) {
  for (const auto& [dtype, size] : {std::pair(DType::f32, 4u), {DType::bf16, 2u}}) {
    const std::size_t plain = saved_on_a_gpu(dtype, 0), exact = saved_on_a_gpu(dtype, 1),
                      all = saved_on_a_gpu(dtype, 2);
    EXPECT_EQ(plain - all, 512u * 256 * size);
    EXPECT_EQ(exact, dtype == DType::f32 ? all : plain);
  }
}

}  // namespace
}  // namespace bytetape::nn
