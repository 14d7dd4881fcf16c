#include "bytetape/autograd/checkpoint.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

/// Convolution, batch norm with running statistics, dropout and an activation.
struct Block : nn::Module {
  nn::Conv2d conv;
  nn::BatchNorm2d bn{6};
  nn::Dropout drop{0.3};

  explicit Block(std::int64_t inputs) : conv(inputs, 6, 3, {.padding = 1}) {
    register_module("conv", conv);
    register_module("bn", bn);
    register_module("drop", drop);
  }
  Tensor forward(const Tensor& x) override { return tanh(drop(relu(bn(conv(x))))); }
};

/// Blocks in a list, a loss behind them; each block in a checkpoint where asked.
struct Net : nn::Module {
  nn::ModuleList<Block> blocks;
  bool checkpoints;

  explicit Net(bool checkpoints) : checkpoints(checkpoints) {
    for (const int inputs : {3, 6, 6, 6}) blocks.push_back(Block(inputs));
    register_module("blocks", blocks);
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (Block& block : blocks)
      if (checkpoints)
        h = checkpoint(block, h);
      else
        h = block(h);
    return mean(h * h);
  }
};

struct Left {
  std::vector<std::vector<float>> values;
  std::uint64_t offset = 0;
  std::size_t peak = 0;
};

/// What two steps of training leave.
Left train(bool checkpoints, DType computed = DType::f32) {
  manual_seed(7);
  Net net(checkpoints);
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  const Tensor x = randn({8, 3, 16, 16}).set_requires_grad();
  Left left;
  memory::reset_peaks(Device::cpu());
  const std::size_t before = allocated();
  for (int step = 0; step < 2; ++step) {
    sgd.zero_grad();
    Tensor loss;
    {
      const Autocast autocast(computed);
      loss = net(x);
    }
    loss.backward();
    sgd.step();
    left.values.push_back(loss.to_vector<float>());
  }
  left.peak = statistics().allocated.peak - before;
  for (const auto& [name, t] : net.state_dict()) {
    left.values.push_back(t.to_vector<float>());
    if (t.grad().defined()) left.values.push_back(t.grad().to_vector<float>());
  }
  left.values.push_back(x.grad().to_vector<float>());
  left.offset = default_generator().state().offset;
  return left;
}

TEST(Checkpoint, IsTheStepBitForBitFromLessMemory) {
  for (const DType computed : {DType::f32, DType::bf16}) {
    const Left plain = train(false, computed), lean = train(true, computed);
    EXPECT_EQ(lean.values, plain.values) << "losses, parameters, gradients, running statistics";
    EXPECT_EQ(lean.offset, plain.offset) << "the second run draws no numbers of its own";
    EXPECT_LT(lean.peak, plain.peak * 3 / 4);
  }
}

TEST(Checkpoint, KeepsItsInputsAlone) {
  const Tensor x = random_leaf({1000}) * 1;
  const std::size_t before = allocated();
  const Tensor y = checkpoint([](const Tensor& t) { return exp(tanh(sigmoid(exp(t)))); }, x);
  EXPECT_EQ(allocated() - before, rounded(8000)) << "the result";
  EXPECT_EQ(held_as(memory::Role::saved), rounded(8000)) << "the input";
}

TEST(Checkpoint, HoldsNothingOfAGraphThatIsDropped) {
  const Tensor w = random_leaf({3, 3});
  const std::size_t before = allocated();
  checkpoint([&](const Tensor& t) { return tanh(sigmoid(t) * exp(matmul(t, w))); }, w * 2);
  EXPECT_EQ(allocated(), before);
}

Tensor composed(const Tensor& x, const Tensor& w) { return tanh(matmul(sigmoid(x) * x, w)) * exp(x); }

TEST(Checkpoint, HasGradientsOfEveryOrder) {
  const Tensor x = random_leaf({3, 3}), w = random_leaf({3, 3});
  const auto lean = [&](const std::vector<Tensor>& in) {
    return checkpoint([](const Tensor& t, const Tensor& v) { return composed(t, v); }, in[0] * 1, in[1]);
  };
  const GradcheckResult once = gradcheck(lean, {x, w}), twice = gradgradcheck(lean, {x, w});
  EXPECT_TRUE(once) << once.message;
  EXPECT_TRUE(twice) << twice.message;
  const auto second = [&](const Tensor& y) {
    const auto first = grad({sum(y * y)}, {x, w}, {.create_graph = true});
    return grad({sum(first[0] * first[0]) + sum(first[1])}, {x, w});
  };
  const auto expected = second(composed(x * 1, w)), got = second(lean({x, w}));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(got[i].to_vector<double>(), expected[i].to_vector<double>());
}

TEST(Checkpoint, LastsForGraphsThatStay) {
  const Tensor x = random_leaf({4}), w = random_leaf({4});
  int runs = 0;
  const Tensor y = checkpoint(
      [&](const Tensor& t) {
        ++runs;
        return exp(t * w);
      },
      x * 1);
  const auto first = grad({sum(y)}, {x, w}, {.retain_graph = true});
  const auto second = grad({sum(y)}, {w});
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(first[1].to_vector<double>(), second[0].to_vector<double>());
  EXPECT_THROWS_SAYING(sum(y).backward(), AutogradError, "already freed");
}

TEST(Checkpoint, TakesInputsThatNeedNoGradient) {
  const Tensor x = random_tensor({4}), w = random_leaf({4});
  const auto f = [&](const Tensor& t, const Tensor& none) { return none.defined() ? t : sigmoid(t * 2) * w; };
  checkpoint(f, x, Tensor()).backward(x);
  const Tensor expected = grad({f(x, {})}, {w}, {.seeds = {x}})[0];
  EXPECT_EQ(w.grad().to_vector<double>(), expected.to_vector<double>());
  const std::size_t saved = held_as(memory::Role::saved);
  {
    const NoGrad no_grad;
    EXPECT_FALSE(checkpoint(f, x, Tensor()).requires_grad());
  }
  EXPECT_FALSE(checkpoint([](const Tensor& t) { return exp(t); }, x).requires_grad());
  EXPECT_EQ(held_as(memory::Role::saved), saved) << "nothing is kept where nothing is recorded";
}

TEST(Checkpoint, GivesSeveralResults) {
  const Tensor x = random_leaf({4});
  const auto two = checkpoint([](const Tensor& t) { return std::vector<Tensor>{exp(t), t * t}; }, x * 1);
  ASSERT_EQ(two.size(), 2u);
  const Tensor g = grad({sum(two[0]) + sum(two[1])}, {x})[0];
  EXPECT_TRUE(all_close(g, grad({sum(exp(x)) + sum(x * x)}, {x})[0]));
}

TEST(Checkpoint, LiesInOthers) {
  const Tensor w = random_leaf({5});
  const auto run = [&](int depth) {
    manual_seed(3);
    const auto layer = [&](const Tensor& t) { return dropout(exp(tanh(t * w)), 0.4); };
    const auto two = [&](const Tensor& t) {
      return depth > 1 ? checkpoint(layer, checkpoint(layer, t)) : layer(layer(t));
    };
    const auto four = [&](const Tensor& t) { return two(two(t)); };
    const Tensor x = ones({3, 5}, DType::f64), y = depth > 0 ? checkpoint(four, x) : four(x);
    const std::vector<double> g = grad({sum(y)}, {w})[0].to_vector<double>();
    return std::pair(g, default_generator().state().offset);
  };
  EXPECT_EQ(run(1), run(0));
  EXPECT_EQ(run(2), run(0));
}

TEST(Checkpoint, RunsAgainInTheModesOfTheFirstTime) {
  const Tensor x = random_tensor({2, 4}, DType::f32), w = random_leaf({3, 4}, DType::f32);
  std::vector<std::string> modes;
  const auto f = [&](const Tensor& t) {
    const memory::ScopeIds& scope = memory::ambient.scope;
    modes.push_back(detail::concat(autocast_dtype(), ' ', default_device(), ' ', grad_enabled(), ' ',
                                   to_string(scope.phase), ' ', memory::name_of(scope.module), ' ', scope.op));
    return tanh(linear(t, w));
  };
  Tensor y;
  {
    const memory::ModuleScope module(memory::intern("around"));
    const memory::PhaseScope phase(memory::Phase::forward);
    const DefaultDevice here(Device::meta());
    const Autocast autocast(DType::bf16);
    y = checkpoint(f, x);
  }
  const memory::ModuleScope elsewhere(memory::intern("elsewhere"));
  const Autocast autocast(DType::f16);
  y.backward(ones_like(y));
  ASSERT_EQ(modes.size(), 2u);
  EXPECT_EQ(modes[1], modes[0]);
  EXPECT_EQ(autocast_dtype(), DType::f16);
}

TEST(Checkpoint, IsBookedUnderTheModulesOfTheFirstTime) {
  const auto modules = [](bool checkpoints) {
    std::set<std::string> names;
    const auto program = [&](Device) {
      Net net(checkpoints);
      net(randn({2, 3, 4, 4})).backward();
    };
    for (const memory::Event& e : record_events(Device::cpu(), program)) names.insert(memory::name_of(e.module));
    return names;
  };
  EXPECT_EQ(modules(true), modules(false));
  EXPECT_TRUE(modules(true).contains("blocks.3 Block.conv"));
}

TEST(Checkpoint, DrawsTheSameNumbersFromAnyGenerator) {
  Generator own(5);
  const Tensor x = random_leaf({4, 6});
  const auto noisy = [&](const Tensor& t) {
    const Tensor noise = randn({6}, DType::f64, Device::cpu(), own);
    return exp(dropout(t, 0.5, true, own) * noise) * rand({6}, DType::f64);
  };
  const auto run = [&](bool checkpoints) {
    own.manual_seed(5), manual_seed(2);
    const Tensor y = checkpoints ? checkpoint(noisy, x * 1) : noisy(x * 1);
    own.take(100);  // what comes between
    return grad({sum(y)}, {x})[0].to_vector<double>();
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Checkpoint, LetsExceptionsThroughAndCanBeTakenAgain) {
  const Tensor x = random_leaf({4}), expected = grad({sum(exp(sigmoid(x)))}, {x})[0];
  bool fails = true;
  const auto f = [&](const Tensor& t) {
    const Tensor h = sigmoid(t);
    if (fails) throw std::runtime_error("no");
    return exp(h);
  };
  const std::size_t before = allocated();
  EXPECT_THROW(checkpoint(f, x * 1), std::runtime_error);
  EXPECT_EQ(allocated(), before);
  fails = false;
  const Tensor y = sum(checkpoint(f, x * 1));
  fails = true;
  EXPECT_THROW(y.backward({}, true), std::runtime_error);
  EXPECT_EQ(grad({sum(exp(sigmoid(x)))}, {x})[0].to_vector<double>(), expected.to_vector<double>());
  fails = false;
  EXPECT_EQ(grad({y}, {x})[0].to_vector<double>(), expected.to_vector<double>());
}

Tensor of_two(const Tensor& x, const Tensor& w) { return tanh(x * w); }

TEST(Checkpoint, TakesFunctionsOfEveryKind) {
  const Tensor x = random_leaf({2, 4}, DType::f32), w = random_leaf({4}, DType::f32);
  const auto gradient = [&](const Tensor& y) { return grad({sum(y)}, {x})[0].to_vector<float>(); };
  EXPECT_EQ(gradient(checkpoint(of_two, x, w)), gradient(of_two(x, w)));
  EXPECT_EQ(gradient(checkpoint(&of_two, x, w)), gradient(of_two(x, w)));

  auto owned = std::make_unique<Tensor>(w);
  auto moves_only = [owned = std::move(owned)](const Tensor& t) { return of_two(t, *owned); };
  EXPECT_EQ(gradient(checkpoint(moves_only, x)), gradient(of_two(x, w))) << "where it is";
  EXPECT_EQ(gradient(checkpoint(std::move(moves_only), x)), gradient(of_two(x, w)));

  const auto copied = [&] {
    const auto f = [w](const Tensor& t) { return of_two(t, w); };
    return checkpoint(f, x);
  };
  EXPECT_EQ(gradient(copied()), gradient(of_two(x, w)));

  nn::Linear layer(4, 4);
  const auto expected = gradient(tanh(layer(x)));
  EXPECT_EQ(gradient(tanh(checkpoint(layer, x))), expected);
  EXPECT_EQ(gradient(tanh(checkpoint(std::move(layer), x))), expected) << "one that moved in";
}

TEST(Checkpoint, IsPredictedToTheByte) {
  const auto program = [](Device device) {
    const DefaultDevice here(device);
    manual_seed(1);
    Net net(true);
    optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    const Tensor x = randn({2, 3, 8, 8});
    for (int i = 0; i < 2; ++i) {
      sgd.zero_grad();
      net(x).backward();
      sgd.step();
    }
  };
  EXPECT_EQ(first_difference(record_events(Device::cpu(), program), record_events(Device::meta(), program)), "");
}

TEST(Checkpoint, GoesTogetherWithRecompute) {
  const auto run = [](bool checkpoints, bool recomputes) {
    manual_seed(4);
    Net net(checkpoints);
    const Tensor x = randn({2, 3, 8, 8});
    {
      std::optional<Recompute> recompute;
      if (recomputes) recompute.emplace();
      net(x).backward();
    }
    std::vector<std::vector<float>> grads;
    for (const Tensor& p : net.parameters()) grads.push_back(p.grad().to_vector<float>());
    return grads;
  };
  EXPECT_EQ(run(true, true), run(false, false));
  EXPECT_EQ(run(true, false), run(false, true));
}

}  // namespace
}  // namespace bytetape::test
