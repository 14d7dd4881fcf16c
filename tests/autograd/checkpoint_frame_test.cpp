#include "bytetape/autograd/checkpoint_frame.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

// As many tensors each time, of which one differs in shape, dtype or device alone.
TEST(CheckpointFrame, RefusesTensorsThatLookOtherwiseTheSecondTime) {
  const test::FakeGpu fake;
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> others{
      {"f64(2, 2) on cpu",
       [](const Tensor& t) {
         return reshape(exp(reshape(t, {2, 2})), 4);
       }},
      {"f32(4,) on cpu", [](const Tensor& t) { return to(exp(to(t, DType::f32)), DType::f64); }},
      {"f64(4,) on cuda", [](const Tensor& t) { return to(exp(to(t, test::FakeGpu::gpu)), Device::cpu()); }}};
  for (const auto& [looks, other] : others) {
    const Tensor x = random_leaf({4});
    int runs = 0;
    const auto changes = [&](const Tensor& t) { return ++runs == 1 ? exp(t) : other(t); };
    const Tensor loss = sum(checkpoint(changes, x * 1));
    EXPECT_THROWS_SAYING(
        loss.backward(), AutogradError,
        "saves other tensors when it runs again, " + std::string(looks) + " where it saved f64(4,) on cpu");
    EXPECT_EQ(runs, 2);
    EXPECT_FALSE(x.grad().defined());
  }
}

TEST(CheckpointFrame, SaysWhatTheFunctionMustNotDo) {
  const Tensor x = random_leaf({4}), w = random_leaf({4});
  int runs = 0;
  const auto more_each_time = [&](const Tensor& t) {
    Tensor h = exp(t);
    for (int i = 0; i < runs; ++i) h = exp(h);
    ++runs;
    return h;
  };
  EXPECT_THROWS_SAYING(sum(checkpoint(more_each_time, x * 1)).backward(), AutogradError,
                       "a function that checkpoint() ran saves other tensors when it runs again, 2 where "
                       "it saved 1");
  const auto draws_more = [again = false](const Tensor& t) mutable {
    if (std::exchange(again, true)) rand({2});
    return exp(dropout(t, 0.5));
  };
  EXPECT_THROWS_SAYING(sum(checkpoint(draws_more, x * 1)).backward(), AutogradError,
                       "more random numbers are drawn than when the function ran first");

  nn::Dropout drop(0.5);
  const Tensor dropped = checkpoint([&](const Tensor& t) { return exp(drop(t)); }, x * 1);
  drop.eval();
  EXPECT_THROWS_SAYING(sum(dropped).backward(), AutogradError, "fewer random numbers are drawn");

  const auto backward_within = [](const Tensor& t) { return grad({sum(exp(t))}, {t})[0] * t; };
  EXPECT_THROWS_SAYING(checkpoint(backward_within, x * 1), AutogradError, "backward runs within a function");

  const Tensor input = x * 1;
  const Tensor y = checkpoint([](const Tensor& t) { return exp(t); }, input);
  {
    const NoGrad no_grad;
    mul_(input, 2);
  }
  EXPECT_THROWS_SAYING(sum(y).backward(), AutogradError, "was overwritten by 'mul_'");

  const Tensor z = checkpoint([&](const Tensor& t) { return exp(t * w); }, x * 1);
  {
    const NoGrad no_grad;
    add_(w, 1);
  }
  EXPECT_THROWS_SAYING(sum(z).backward(), AutogradError, "was overwritten by 'add_'");
}

TEST(CheckpointFrame, FindsOverwrittenLeavesThatNoNodeSaved) {
  struct Case {
    const char* name;
    std::function<Tensor(const Tensor& t, const Tensor& w, const Tensor& b)> f;
  };
  const Case cases[] = {
      {"a layer", [](const Tensor& t, const Tensor& w, const Tensor& b) { return tanh(linear(t, w, b)); }},
      {"addends", [](const Tensor& t, const Tensor& w, const Tensor& b) { return tanh(t + b + sum(w, {0})); }},
      {"a view",
       [](const Tensor& t, const Tensor& w, const Tensor& b) { return tanh(matmul(t, transpose(w, 0, 1)) + b); }},
      {"a checkpoint within",
       [](const Tensor& t, const Tensor& w, const Tensor& b) {
         return tanh(checkpoint([=](const Tensor& u) { return linear(u, w, b); }, t));
       }},
      {"one that saves nothing", [](const Tensor& t, const Tensor& w, const Tensor& b) {
         return tanh(checkpoint([=](const Tensor& u) { return u + b + sum(w, {0}); }, t));
       }}};
  const Tensor x = random_tensor({2, 4}, DType::f32);
  for (const Case& c : cases)
    for (const DType computed : {DType::f32, DType::bf16})
      for (const int overwritten : {0, 1}) {
        const Tensor leaves[] = {random_leaf({4, 4}, DType::f32), random_leaf({4}, DType::f32)};
        Tensor y;
        {
          const Autocast autocast(computed);
          y = sum(checkpoint([&](const Tensor& t) { return c.f(t, leaves[0], leaves[1]); }, x));
        }
        {
          const NoGrad no_grad;
          add_(leaves[overwritten], 1);
        }
        EXPECT_THROWS_SAYING(y.backward(), AutogradError, "was overwritten by 'add_'")
            << '\n'
            << c.name << ", leaf " << overwritten << ", " << computed;
      }
  const Tensor b = random_leaf({4}, DType::f32);
  const Tensor y = sum(checkpoint([&](const Tensor& t) { return tanh(t + b); }, x));
  b.set_data(to(b, DType::f64).detach());
  EXPECT_THROWS_SAYING(y.backward(), AutogradError, "was moved or converted");
}

/// Runs a block that others own too.
struct Caller : nn::Module {
  std::shared_ptr<nn::Linear> block;
  explicit Caller(std::shared_ptr<nn::Linear> its) : block(std::move(its)) { register_module("block", block); }
  Tensor forward(const Tensor& x) override {
    return checkpoint([mine = block](const Tensor& t) { return tanh((*mine)(t)); }, x);
  }
};

TEST(CheckpointFrame, OutlivesTheModuleThatCalledIt) {
  const auto block = std::make_shared<nn::Linear>(3, 3);
  const Tensor x = random_tensor({2, 3}, DType::f32);
  const Tensor expected = grad({sum(tanh((*block)(x)))}, {block->weight})[0];
  alignas(Caller) std::byte place[sizeof(Caller)];
  Caller* const caller = new (place) Caller(block);
  const Tensor y = sum((*caller)(x));
  caller->~Caller();
  for (std::size_t i = 0; i < sizeof(place); ++i) place[i] = static_cast<std::byte>(i);  // anything else lies there
  EXPECT_EQ(grad({y}, {block->weight})[0].to_vector<float>(), expected.to_vector<float>());
}

TEST(CheckpointFrame, LeavesGeneratorsThatTheFunctionSeedsToTheFirstRun) {
  Generator own(5);
  const Tensor x = random_leaf({4, 6});
  const auto seeded = [&](const Tensor& t) {
    manual_seed(3);
    const auto within = [&](const Tensor& u) {
      own.load_state_dict(Generator(8).state_dict());
      return exp(dropout(u, 0.5, true, own));
    };
    const Tensor h = checkpoint(within, exp(dropout(t, 0.5)));
    own.set_state({9, 2});
    return h * rand({6}, DType::f64);
  };
  const auto run = [&](bool checkpoints) {
    const Tensor y = checkpoints ? checkpoint(seeded, x * 1) : seeded(x * 1);
    manual_seed(11), own.manual_seed(12);
    rand({3}), own.take(7);
    const std::vector<double> g = grad({sum(y)}, {x})[0].to_vector<double>();
    const PhiloxState shared = default_generator().state(), its = own.state();
    return std::tuple(g, shared.seed, shared.offset, its.seed, its.offset);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(CheckpointFrame, RegistersHooksOnce) {
  const Tensor x = random_leaf({4}), w = random_leaf({4});
  const auto run = [&](bool checkpoints) {
    std::vector<std::string> calls;
    std::vector<std::pair<Tensor, int>> registered;
    const auto hook = [&](const Tensor& of, const char* name) {
      registered.emplace_back(of, of.register_hook([&calls, name](const Tensor&) {
        calls.emplace_back(name);
        return Tensor();
      }));
    };
    const auto hooked = [&](const Tensor& t) {
      const Tensor h = exp(t * w);
      hook(t, "input"), hook(w, "leaf"), hook(h, "made within");
      return tanh(h);
    };
    const Tensor input = x * 1, y = sum(checkpoints ? checkpoint(hooked, input) : hooked(input));
    y.backward({}, true);
    y.backward();
    for (const auto& [of, handle] : registered) of.remove_hook(handle);
    return calls;
  };
  EXPECT_EQ(run(true), run(false));
}

}  // namespace
}  // namespace bytetape::test
