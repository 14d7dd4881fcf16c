#include "bytetape/nn/hooks.h"

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using testing::ElementsAre;
using Tensors = std::vector<Tensor>;

/// Has two inputs and two outputs.
struct Two : nn::Module {
  std::pair<Tensor, Tensor> operator()(const Tensor& a, const Tensor& b) {
    return nn::call(
        *this, [](const Tensor& a, const Tensor& b) { return std::pair(a * b, a + b); }, a, b);
  }
};

Tensor of(const std::vector<double>& values) { return from_vector(values); }

TEST(Hooks, SeeInputsAndOutputs) {
  nn::Tanh layer;
  const Tensor x = randn({3});
  Tensor before, in, out;
  layer.register_forward_pre_hook([&](const nn::Module& module, Tensors& inputs) {
    EXPECT_EQ(&module, &layer);
    before = inputs.at(0);
  });
  layer.register_forward_hook([&](const nn::Module& module, const Tensors& inputs, Tensors& outputs) {
    EXPECT_EQ(&module, &layer);
    in = inputs.at(0), out = outputs.at(0);
  });
  const Tensor y = layer(x);
  EXPECT_TRUE(before.is_same(x) && in.is_same(x) && out.is_same(y));
}

TEST(Hooks, ReplaceInputsAndOutputsInOrder) {
  nn::Identity layer;
  const auto add = [](double v) { return [v](const nn::Module&, Tensors& inputs) { inputs[0] = inputs[0] + v; }; };
  layer.register_forward_pre_hook(add(1));
  layer.register_forward_pre_hook([](const nn::Module&, Tensors& inputs) { inputs[0] = inputs[0] * 10; });
  layer.register_forward_hook(
      [](const nn::Module&, const Tensors& inputs, Tensors& outputs) { outputs[0] = outputs[0] + inputs[0] * 1000; });
  EXPECT_THAT(layer(of({1, 2})).to_vector<double>(), ElementsAre(20020, 30030));
}

TEST(Hooks, SeeAllInputsAndOutputsOfACall) {
  Two two;
  two.register_forward_pre_hook([](const nn::Module&, Tensors& inputs) { std::swap(inputs.at(0), inputs.at(1)); });
  two.register_forward_hook([](const nn::Module&, const Tensors& inputs, Tensors& outputs) {
    EXPECT_EQ(inputs.at(0).item<double>(), 5);
    outputs.at(1) = outputs[1] * 2;
  });
  const auto [product, sum] = two(of({3}), of({5}));
  EXPECT_EQ(product.item<double>(), 15);
  EXPECT_EQ(sum.item<double>(), 16);
}

TEST(Hooks, EndWithTheirHandle) {
  nn::Identity layer;
  int calls = 0;
  const auto count = [&](const nn::Module&, Tensors&) { ++calls; };
  nn::HookHandle first = layer.register_forward_pre_hook(count);
  nn::HookHandle copy = first;
  layer.register_forward_pre_hook(count);  // without a handle, it stays
  const Tensor x = ones({1});
  layer(x);
  EXPECT_EQ(calls, 2);
  first.remove(), copy.remove();
  layer(x);
  EXPECT_EQ(calls, 3);
  nn::HookHandle itself;
  itself = layer.register_forward_hook([&](const nn::Module&, const Tensors&, Tensors&) { ++calls, itself.remove(); });
  layer(x), layer(x);
  EXPECT_EQ(calls, 6);
  nn::HookHandle late;
  late.remove();
  {
    nn::Identity short_lived;
    late = short_lived.register_forward_pre_hook(count);
  }
  late.remove();
}

TEST(Hooks, MoveWithTheModule) {
  nn::Linear layer(2, 2);
  int calls = 0;
  const nn::Module* seen = nullptr;
  layer.register_forward_pre_hook([&](const nn::Module& module, Tensors&) { ++calls, seen = &module; });
  nn::Sequential net(std::move(layer));
  net(ones({1, 2}));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(seen, &net[0]);
}

TEST(Hooks, LeaveTheStateAndItsKeys) {
  nn::Sequential net(nn::Linear(2, 3), nn::ReLU());
  const auto keys = [&] {
    std::vector<std::string> all;
    for (const auto& [name, x] : net.state_dict()) all.push_back(name);
    return all;
  };
  const auto before = keys();
  net[0].register_forward_pre_hook([](const nn::Module&, Tensors&) {});
  net.register_full_backward_hook([](const nn::Module&, Tensors&, const Tensors&) {});
  EXPECT_EQ(keys(), before);
}

// A Linear and a ReLU would run as one op, which calls the Linear alone.
TEST(Hooks, RunForEachModuleOfASequential) {
  for (const char* hooked : {"0", "1", ""}) {
    nn::Sequential net(nn::Linear(3, 3), nn::ReLU(), nn::Sequential(nn::Linear(3, 3), nn::ReLU()));
    const Tensor x = randn({4, 3}), expected = net(x);
    std::vector<Tensor> seen;
    nn::HookHandle handle = net.get_submodule(hooked).register_forward_hook(
        [&](const nn::Module&, const Tensors& inputs, Tensors& outputs) {
          seen = {inputs[0], outputs[0]};
        });
    EXPECT_EQ(net(x).to_vector<float>(), expected.to_vector<float>());
    ASSERT_EQ(seen.size(), 2u);
    const Tensor h = linear(x, net[0].as<nn::Linear>().weight, net[0].as<nn::Linear>().bias);
    const bool is_linear = std::string(hooked) == "0", is_relu = std::string(hooked) == "1";
    EXPECT_TRUE(test::all_close(seen[0], is_relu ? h : x));
    EXPECT_TRUE(test::all_close(seen[1], is_linear ? h : is_relu ? relu(h) : expected));
    handle.remove();
  }
}

TEST(Hooks, RunOnceWhereAFunctionOfTheModuleCallsAnother) {
  nn::Linear layer(2, 2);
  struct Wrapper : nn::Linear {
    using Linear::Linear;
    Tensor forward(const Tensor& x) override { return (*this)(x, Activation::relu); }
  } wrapper(2, 2);
  int calls = 0;
  for (nn::Module* m : {static_cast<nn::Module*>(&layer), static_cast<nn::Module*>(&wrapper)})
    m->register_forward_pre_hook([&](const nn::Module&, Tensors&) { ++calls; });
  layer(ones({1, 2}), Activation::relu);
  EXPECT_EQ(calls, 1);
  static_cast<nn::Module&>(wrapper)(ones({1, 2}));
  EXPECT_EQ(calls, 2);
}

TEST(Hooks, AreRefusedIfTheyDoNotFit) {
  nn::Identity layer;
  EXPECT_THROWS_SAYING(layer.register_forward_hook(nullptr), ValueError, "a hook of Identity() must be callable");
  nn::HookHandle handle = layer.register_forward_pre_hook([](const nn::Module&, Tensors& inputs) { inputs.clear(); });
  EXPECT_THROWS_SAYING(layer(ones({1})), ValueError,
                       "a forward pre-hook of Identity() must keep the list of 1, got one of 0");
  handle.remove();
  handle = layer.register_forward_hook([](const nn::Module&, const Tensors&, Tensors& y) { y.push_back(y[0]); });
  EXPECT_THROWS_SAYING(layer(ones({1})), ValueError, "must keep the list of 1, got one of 2");
  handle.remove();
  EXPECT_NO_THROW(layer(ones({1})));
}

TEST(BackwardHooks, SeeTheGradients) {
  nn::Linear layer(3, 2);
  layer.to(DType::f64);
  const Tensor x = randn({4, 3}, DType::f64).set_requires_grad(), gy = randn({4, 2}, DType::f64);
  Tensors in, out;
  layer.register_full_backward_hook([&](const nn::Module& module, Tensors& grad_inputs, const Tensors& grad_outputs) {
    EXPECT_EQ(&module, &layer);
    in = grad_inputs, out = grad_outputs;
  });
  const Tensor y = layer(x);
  y.backward(gy);
  ASSERT_EQ(in.size(), 1u);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to_vector<double>(), gy.to_vector<double>());
  EXPECT_EQ(in[0].to_vector<double>(), x.grad().to_vector<double>());
  EXPECT_TRUE(test::all_close(x.grad(), matmul(gy, layer.weight.detach()), 1e-12, 1e-12));
}

TEST(BackwardHooks, ReplaceTheGradientsOfInputs) {
  Two two;
  two.register_full_backward_hook([](const nn::Module&, Tensors& grad_inputs, const Tensors& grad_outputs) {
    EXPECT_TRUE(grad_outputs.at(0).defined());
    EXPECT_FALSE(grad_outputs.at(1).defined()) << "nothing used it";
    grad_inputs.at(0) = grad_inputs[0] * 100;
    EXPECT_FALSE(grad_inputs.at(1).defined()) << "it requires no grad";
  });
  const Tensor a = of({3}).set_requires_grad(), b = of({5});
  two(a, b).first.backward();
  EXPECT_EQ(a.grad().item<double>(), 500);
}

TEST(BackwardHooks, RunWithoutInputsThatRequireGrad) {
  nn::Linear layer(3, 2);
  int calls = 0;
  layer.register_full_backward_hook([&](const nn::Module&, Tensors& grad_inputs, const Tensors& grad_outputs) {
    ++calls;
    EXPECT_FALSE(grad_inputs.at(0).defined());
    EXPECT_THAT(grad_outputs.at(0).shape(), (Shape{4, 2}));
  });
  sum(layer(randn({4, 3}))).backward();
  EXPECT_EQ(calls, 1);
  const NoGrad no_grad;
  EXPECT_FALSE(layer(randn({4, 3})).requires_grad());
}

TEST(BackwardHooks, RunInEachBackwardForEachCall) {
  nn::Tanh layer;
  std::vector<double> seen;
  nn::HookHandle handle =
      layer.register_full_backward_hook([&](const nn::Module&, Tensors&, const Tensors& grad_outputs) {
        seen.push_back(grad_outputs[0].item<double>());
      });
  const Tensor x = of({0}).set_requires_grad();
  const Tensor y = layer(layer(x) * 2) * 3;
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  EXPECT_THAT(seen, ElementsAre(3, 6, 3, 6));
  handle.remove();
  layer(x).backward();
  EXPECT_EQ(seen.size(), 4u);
}

TEST(BackwardHooks, LeaveHigherDerivatives) {
  nn::Tanh layer;
  layer.register_full_backward_hook(
      [](const nn::Module&, Tensors& grad_inputs, const Tensors&) { grad_inputs[0] = grad_inputs[0] * 2; });
  const Tensor x = of({0.3}).set_requires_grad();
  const Tensor gx = grad({layer(x)}, {x}, {.create_graph = true})[0];
  const double t = std::tanh(0.3);
  EXPECT_NEAR(gx.item<double>(), 2 * (1 - t * t), 1e-12);
  EXPECT_NEAR(grad({gx}, {x})[0].item<double>(), -4 * t * (1 - t * t), 1e-12);
}

// The gradients of outputs wait for those of inputs, which this backward does not reach.
TEST(BackwardHooks, KeepNoGraphThatKeepsThem) {
  nn::Linear layer(4, 4);
  layer.register_full_backward_hook([](const nn::Module&, Tensors&, const Tensors&) {});
  const std::size_t before = test::allocated();
  {
    const Tensor x = randn({8, 4}).set_requires_grad(), y = layer(x);
    grad({sum(y * y)}, {layer.weight}, {.create_graph = true});
  }
  EXPECT_EQ(test::allocated(), before);
}

TEST(BackwardHooks, EndWithTheModule) {
  const Tensor x = of({0}).set_requires_grad();
  int calls = 0;
  Tensor y;
  {
    nn::Tanh layer;
    layer.register_full_backward_hook([&](const nn::Module&, Tensors&, const Tensors&) { ++calls; });
    y = layer(x);
  }
  y.backward();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(x.grad().item<double>(), 1);
}

TEST(BackwardHooks, MustReturnGradientsThatFit) {
  nn::Tanh layer;
  const Tensor x = of({0, 1}).set_requires_grad();
  nn::HookHandle handle = layer.register_full_backward_hook(
      [](const nn::Module&, Tensors& grad_inputs, const Tensors&) { grad_inputs[0] = zeros({3}, DType::f64); });
  EXPECT_THROWS_SAYING(sum(layer(x)).backward(), AutogradError,
                       "backward_hook: its backward, for input 0, gave the gradient f64(3,)");
  handle.remove();
  handle = layer.register_full_backward_hook(
      [](const nn::Module&, Tensors& grad_inputs, const Tensors&) { grad_inputs.clear(); });
  EXPECT_THROWS_SAYING(sum(layer(x)).backward(), ValueError, "a backward hook of Tanh() returned 0 gradients for 1");
}

/// Trains for some steps, and returns the parameters.
std::vector<std::vector<float>> train(bool hooked, bool checkpointed) {
  manual_seed(3);
  nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Sequential(nn::Linear(8, 8), nn::Dropout(0.5), nn::Tanh()),
                     nn::Linear(8, 2));
  if (checkpointed) net[2].set_checkpointed();
  if (hooked)
    for (const auto& [path, module] : net.named_modules()) {
      module->register_forward_pre_hook([](const nn::Module&, Tensors&) {});
      module->register_forward_hook([](const nn::Module&, const Tensors&, Tensors&) {});
      module->register_full_backward_hook([](const nn::Module&, Tensors&, const Tensors&) {});
    }
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  for (int i = 0; i < 4; ++i) {
    sgd.zero_grad();
    sum(net(randn({5, 4}))).backward();
    sgd.step();
  }
  std::vector<std::vector<float>> all;
  for (const Tensor& p : net.parameters()) all.push_back(p.to_vector<float>());
  return all;
}

TEST(Hooks, ThatOnlyLookChangeNoBit) {
  const auto plain = train(false, false);
  for (const bool checkpointed : {false, true}) EXPECT_EQ(train(true, checkpointed), plain);
}

TEST(Hooks, RunAgainInACheckpointAroundThem) {
  nn::Sequential net(nn::Linear(3, 3), nn::Tanh());
  int outer = 0, inner = 0, backward = 0;
  net.register_forward_pre_hook([&](const nn::Module&, Tensors& inputs) { ++outer, inputs[0] = inputs[0] * 2; });
  net[1].register_forward_hook([&](const nn::Module&, const Tensors&, Tensors& y) { ++inner, y[0] = exp(y[0]); });
  net[1].register_full_backward_hook([&](const nn::Module&, Tensors&, const Tensors&) { ++backward; });
  const Tensor x = randn({2, 3}).set_requires_grad();
  const auto gradient = [&](const Tensor& y) { return grad({sum(y)}, {x})[0].to_vector<float>(); };
  const auto expected = gradient(net(x));
  outer = inner = backward = 0;
  EXPECT_EQ(gradient(checkpoint(net, x)), expected);
  EXPECT_EQ(outer, 2);
  EXPECT_EQ(inner, 2);
  EXPECT_EQ(backward, 1);
  outer = inner = backward = 0;
  net.set_checkpointed();
  EXPECT_EQ(gradient(net(x)), expected);
  EXPECT_EQ(outer, 1) << "they are outside its own checkpoint";
  EXPECT_EQ(inner, 2);
  EXPECT_EQ(backward, 1);
}

TEST(Hooks, AreHostCodeToACapturedStep) {
  const DefaultDevice here(Device::meta(Device::cuda()));
  nn::Sequential net(nn::Linear(3, 3), nn::ReLU());
  int forward = 0, backward = 0;
  net[1].register_forward_hook([&](const nn::Module&, const Tensors&, Tensors& y) { ++forward, y[0] = y[0] * 2; });
  net[1].register_full_backward_hook([&](const nn::Module&, Tensors&, const Tensors&) { ++backward; });
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  auto step = capture([&] {
    sgd.zero_grad();
    sum(net(ones({2, 3}))).backward();
    sgd.step();
  });
  for (int i = 0; i < 6; ++i) step();
  EXPECT_TRUE(step.is_captured());
  EXPECT_EQ(forward, 3) << "two steps, and the captured one";
  EXPECT_EQ(backward, 3);
}

}  // namespace
}  // namespace bytetape
