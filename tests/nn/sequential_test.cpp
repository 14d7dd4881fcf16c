#include "bytetape/nn/sequential.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

TEST(Sequential, RunsInOrderAndNamesByNumber) {
  nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
  EXPECT_EQ(net(randn({3, 4})).shape(), (Shape{3, 2}));
  EXPECT_EQ(net.named_parameters()[2].first, "2.weight");
  EXPECT_EQ(net.size(), 3u);
  EXPECT_EQ(net.describe(), "Sequential");
}

TEST(Sequential, TakesNames) {
  nn::Sequential net(nn::Linear(4, 8));
  net.push_back("head", nn::Linear(8, 2)).push_back(nn::ReLU());
  EXPECT_EQ(net.named_parameters()[2].first, "head.weight");
  EXPECT_EQ(net.named_modules().back().first, "2");
  EXPECT_THROWS_SAYING(net.push_back("head", nn::ReLU()), ValueError, "head");
  EXPECT_EQ(net.size(), 3u);
  EXPECT_EQ(net(randn({3, 4})).shape(), (Shape{3, 2}));
}

TEST(Sequential, TakesFunctions) {
  const auto halve = [](const Tensor& x) { return x / 2; };
  nn::Sequential net(nn::ReLU(), halve, nn::Identity(), [](const Tensor& x) { return x + 1; });
  net.push_back(silu).push_back("last", nn::Lambda(halve));
  const Tensor x = randn({3, 4});
  EXPECT_EQ(net(x).to_vector<float>(), (silu(relu(x) / 2 + 1) / 2).to_vector<float>());
  EXPECT_EQ(net.named_modules().back().first, "last");
  EXPECT_EQ(net.size(), 6u);
}

TEST(Sequential, OfOneIsNotNested) {
  nn::Sequential net(nn::Sequential(nn::Linear(4, 8)));
  EXPECT_EQ(net.named_parameters()[0].first, "0.weight");
}

Tensor fused(nn::Sequential& net, const Tensor& x) { return net(x); }
Tensor layer_by_layer(nn::Sequential& net, Tensor x) {
  for (nn::Module& layer : net) x = layer(x);
  return x;
}

struct Result {
  std::vector<double> value;
  std::vector<std::vector<double>> grads;
};
/// What run(net, x) makes of fixed values, and the gradients of them and of net's parameters.
template <class F>
Result result_of(nn::Sequential& net, const Tensor& values, const F& run) {
  net.zero_grad();
  const Tensor x = values.detach().set_requires_grad(), y = run(net, x);
  y.backward(values.detach().alias(y.shape(), contiguous_strides(y.shape()), 0));
  Result r{y.to_vector<double>(), {x.grad().to_vector<double>()}};
  for (const Tensor& p : net.parameters()) r.grads.push_back(p.grad().to_vector<double>());
  return r;
}

nn::Sequential with_activations() {
  nn::Sequential net(nn::ReLU(), nn::Conv2d(3, 3, 3, {.padding = 1}), nn::GELU(Approximate::tanh),
                     nn::Conv2d(3, 8, 3, {.padding = 1}), nn::BatchNorm2d(8), nn::ReLU(),
                     nn::Conv2d(8, 6, 4, {.padding = "same"}), nn::ReLU(), nn::ReLU(),
                     nn::Conv2d(6, 4, 3, {.stride = 2, .groups = 2, .bias = false}));
  net.push_back(nn::ReLU()).push_back(nn::Flatten()).push_back(nn::Linear(4 * 4 * 4, 12)).push_back(nn::ReLU());
  net.push_back(nn::Linear(12, 7, false)).push_back(nn::ReLU()).push_back(nn::Tanh()).push_back(nn::Linear(7, 5));
  net.push_back(nn::GELU(Approximate::tanh)).push_back(nn::Linear(5, 9, false)).push_back(nn::GELU(Approximate::tanh));
  net.push_back(nn::Linear(9, 8)).push_back(nn::GELU()).push_back(nn::GELU(Approximate::tanh));
  return net;
}

TEST(Sequential, FusesToTheBitsOfTwoLayers) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(detail::concat(dtype));
    nn::Sequential net = with_activations();
    net.to(dtype);
    const Tensor x = test::random_tensor({2, 3, 10, 10}, dtype);
    const Result one = result_of(net, x, fused), two = result_of(net, x, layer_by_layer);
    EXPECT_EQ(one.value, two.value);
    EXPECT_EQ(one.grads, two.grads);
  }
}

TEST(Sequential, MakesNothingBetweenLayersThatItFuses) {
  nn::Sequential net;
  net.push_back("fc", nn::Linear(64, 32)).push_back("relu", nn::ReLU());
  const Tensor x = randn({100, 64});
  const auto rise = [&](const auto& run) {  // until backward
    const std::size_t before = test::allocated();
    const Tensor y = run(net, x);
    EXPECT_EQ(y.storage().role(), memory::Role::saved);
    return std::pair(memory::name_of(y.storage().module()), test::allocated() - before);
  };
  const auto [one_of, one] = rise(fused);
  const auto [two_of, two] = rise(layer_by_layer);
  EXPECT_EQ(one_of, "fc");
  EXPECT_EQ(two_of, "relu");
  EXPECT_EQ(two, one);
  const auto made = [&](const auto& run) {
    const auto before = test::statistics().allocations;
    run(net, x);
    return test::statistics().allocations - before;
  };
  EXPECT_EQ(made(fused) + 1, made(layer_by_layer));
}

TEST(Sequential, FusesGeluByTanhAndNoOther) {
  nn::Sequential net;
  net.push_back("fc", nn::Linear(6, 5)).push_back("gelu", nn::GELU(Approximate::tanh));
  const Tensor x = randn({4, 6});
  EXPECT_EQ(memory::name_of(fused(net, x).storage().module()), "fc");
  EXPECT_EQ(memory::name_of(layer_by_layer(net, x).storage().module()), "gelu");
  nn::Sequential exact;
  exact.push_back("fc", nn::Linear(6, 5)).push_back("gelu", nn::GELU());
  EXPECT_EQ(memory::name_of(fused(exact, x).storage().module()), "gelu");
}

TEST(Sequential, FusedNeedsNoMoreMemoryAtAnyTime) {
  nn::Sequential net(nn::Linear(40, 300), nn::ReLU(), nn::Linear(300, 300), nn::GELU(Approximate::tanh),
                     nn::Linear(300, 300), nn::ReLU(), nn::Linear(300, 2));
  const Tensor x = randn({500, 40});
  const auto peak = [&](const auto& run) {
    net.zero_grad();
    memory::reset_peaks(Device::cpu());
    sum(run(net, x)).backward();
    return test::statistics().allocated.peak;
  };
  EXPECT_LE(peak(fused), peak(layer_by_layer));
}

TEST(Sequential, RunsTheForwardOfALayerDerivedFromOneThatItKnows) {
  struct Doubled : nn::Linear {
    using Linear::Linear;
    Tensor forward(const Tensor& x) override { return Linear::forward(x) * 2; }
  };
  struct Negative : nn::ReLU {
    Tensor forward(const Tensor& x) override { return -relu(x); }
  };
  nn::Sequential net{Doubled(3, 4), nn::ReLU(), nn::Linear(4, 4), Negative()};
  nn::init::constant_(net[2].as<nn::Linear>().bias, 9);  // so that some outputs are not 0
  const Tensor x = randn({5, 3}), y = net(x);
  EXPECT_EQ(y.to_vector<float>(), layer_by_layer(net, x).to_vector<float>());
  EXPECT_LT(min(y).item<float>(), 0);
}

TEST(Sequential, RunsInCheckpointsToTheSameBits) {
  nn::Sequential net = with_activations();
  const Tensor x = test::random_tensor({2, 3, 10, 10}, DType::f32);
  const Result expected = result_of(net, x, fused);
  for (const std::int64_t segments : {1, 2, 3, 5, 24}) {
    const Result got = result_of(net, x, [&](nn::Sequential& model, const Tensor& input) {
      return nn::checkpoint_sequential(model, segments, input);
    });
    EXPECT_EQ(got.value, expected.value) << segments;
    EXPECT_EQ(got.grads, expected.grads) << segments;
  }
  for (const std::int64_t segments : {0, 25})
    EXPECT_THROWS_SAYING(nn::checkpoint_sequential(net, segments, x), ValueError, "expected 1 to 24 segments");
}

TEST(Sequential, KeepsInputsOfPartsAloneInCheckpoints) {
  nn::Sequential net;
  for (int i = 0; i < 16; ++i) net.push_back(nn::Tanh());
  const Tensor x = randn({1000}).set_requires_grad();
  const std::size_t before = test::allocated();
  const Tensor y = nn::checkpoint_sequential(net, 4, x * 1);
  EXPECT_EQ(test::allocated() - before, 7 * test::rounded(4000)) << "three inputs of parts, and four results behind";
}

// A layer is moved in or shared: an lvalue would have to be copied.
static_assert(!std::is_constructible_v<nn::Sequential, nn::Sequential&, nn::ReLU>);
static_assert(!std::is_constructible_v<nn::Sequential, nn::Linear&>);
static_assert(std::is_constructible_v<nn::Sequential, nn::Linear, const std::shared_ptr<nn::Linear>&>);

}  // namespace
}  // namespace bytetape
