#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
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

TEST(CheckpointedModules, OfSeveralPathsAreNamedByAnyOfThem) {
  const auto shared = std::make_shared<Block>();
  Sequential net;
  net.push_back("a", shared).push_back("b", shared);
  for (const char* path : {"a", "b"}) {
    checkpoint_modules(net, {path});
    EXPECT_TRUE(shared->is_checkpointed()) << path;
    EXPECT_FALSE(shared->a.is_checkpointed());
    checkpoint_modules(net, {std::string(path) + ".a"});
    EXPECT_FALSE(shared->is_checkpointed());
    EXPECT_TRUE(shared->a.is_checkpointed()) << path;
  }
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

/// How many blocks backward makes in forward's phase, and the gradients.
template <class M, class Run>
std::pair<std::size_t, std::vector<Tensor>> made_again(Run run, bool checkpointed) {
  manual_seed(3);
  M module;
  module.set_checkpointed(checkpointed);
  const Tensor x = randn({64, 32}).set_requires_grad(), y = randn({64, 32}).set_requires_grad();
  const Tensor loss = sum(run(module, x, y) * 0.1);
  memory::Allocator& books = memory::allocator(Device::cpu());
  books.reset_log(memory::Ledger::default_log_capacity);
  loss.backward();
  const auto events = books.snapshot().events;
  const auto again = std::count_if(events.begin(), events.end(), [](const memory::Event& e) {
    return e.kind == memory::EventKind::alloc && e.phase == memory::Phase::forward;
  });
  std::vector<Tensor> grads{x.grad(), y.grad()};
  for (const Tensor& p : module.parameters()) grads.push_back(p.grad());
  return {static_cast<std::size_t>(again), grads};
}
template <class M, class Run>
void expect_checkpoint(Run run) {
  const auto [none, plain] = made_again<M>(run, false);
  const auto [again, grads] = made_again<M>(run, true);
  EXPECT_EQ(none, 0u);
  EXPECT_GT(again, 0u);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ASSERT_EQ(grads[i].defined(), plain[i].defined()) << i;
    if (!plain[i].defined()) continue;
    EXPECT_TRUE(test::all_close(grads[i], plain[i], 0, 0)) << i;
  }
}

struct Fused : Linear {
  Fused() : Linear(32, 32) {}
};
struct Norm : BatchNorm1d {
  Norm() : BatchNorm1d(32) {}
};
struct AddNorm : LayerNorm {
  AddNorm() : LayerNorm(Shape{32}) {}
};
/// A tuple of three.
struct Gates : Module {
  Linear fc{32, 32};
  Gates() { register_module("fc", fc); }
  Tensor operator()(const Tensor& x, const Tensor& h) {
    const auto body = [this](const Tensor& x, const Tensor& h) {
      const Tensor f = sigmoid(fc(x)), g = tanh(fc(h));
      return std::tuple(f, g, tanh(f * g));
    };
    const auto [f, g, y] = call(*this, body, x, h);
    return f + g + y;
  }
};
struct Parts : Module {
  Tensor operator()(const Tensor& x, const Tensor& h) {
    const auto body = [](const Tensor& x, const Tensor& h) { return std::vector<Tensor>{tanh(tanh(x)), tanh(h)}; };
    const std::vector<Tensor> both = call(*this, body, x, h);
    return both.at(0) * both.at(1);
  }
};

TEST(CheckpointedModules, AreCheckpointsWhateverTheyAreCalledWith) {
  expect_checkpoint<Fused>([](auto& m, const Tensor& x, const Tensor&) { return m(x, Activation::relu); });
  expect_checkpoint<Norm>([](auto& m, const Tensor& x, const Tensor&) { return m(x, Activation::relu); });
  expect_checkpoint<Norm>([](auto& m, const Tensor& x, const Tensor& y) { return m(x * 2, y * 2, Activation::relu); });
  expect_checkpoint<AddNorm>([](auto& m, const Tensor& x, const Tensor& y) {
    const auto both = m(x * 2, y * 2);
    return both.y + both.sum;
  });
  expect_checkpoint<Gates>([](auto& m, const Tensor& x, const Tensor& y) { return m(x, y); });
  expect_checkpoint<Parts>([](auto& m, const Tensor& x, const Tensor& y) { return m(x, y); });
}

/// Functions that call each other, one of which cannot run again by itself.
struct Plain : Module {
  Tensor half(const Tensor& x) const {
    const Call call(*this);
    return tanh(x) * 0.5;
  }
  Tensor forward(const Tensor& x) override { return half(tanh(x)); }
};

TEST(CheckpointedModules, ThrowWhereTheyCannotRunAgain) {
  Plain plain;
  const Tensor x = randn({4, 4}).set_requires_grad();
  plain.half(x);
  plain.set_checkpointed();
  EXPECT_THROWS_SAYING(plain.half(x), NotImplemented,
                       "Plain is checkpointed, but the function that was called begins with nn::Call, which cannot run "
                       "it again: return nn::call(*this, body, inputs...) in its place");
  const NoGrad no_grad;
  EXPECT_THROW(plain.half(x), NotImplemented) << "at once, not when training begins";
}

/// One function is a call within the other.
struct Nested : Module {
  int runs = 0;
  Tensor inner(const Tensor& x) {
    return call(
        *this,
        [this](const Tensor& x) {
          ++runs;
          return tanh(tanh(x));
        },
        x);
  }
  Tensor forward(const Tensor& x) override { return inner(tanh(x)); }
};

TEST(CheckpointedModules, RunOnceMoreAltogether) {
  Nested nested;
  nested.set_checkpointed();
  sum(nested(randn({4, 4}).set_requires_grad())).backward();
  EXPECT_EQ(nested.runs, 2);
}

TEST(CheckpointedModules, MayCallTheirOwnFunctions) {
  Plain plain;
  plain.set_checkpointed();
  Tensor x = randn({4, 4}).set_requires_grad();
  sum(plain(x)).backward();
  const Tensor grad = x.grad();
  x.set_grad({});
  sum(plain.set_checkpointed(false)(x)).backward();
  EXPECT_TRUE(test::all_close(x.grad(), grad, 0, 0));
}

TEST(CheckpointedModules, KeepNothingWhereNothingIsRecorded) {
  Block block;
  block.set_checkpointed().eval();
  const NoGrad no_grad;
  EXPECT_FALSE(block(randn({2, 64})).requires_grad());
}

}  // namespace
}  // namespace bytetape::nn
