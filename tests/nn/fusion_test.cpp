#include "bytetape/nn/fusion.h"

#include <memory>

#include "bytetape/bytetape.h"
#include "bytetape/core/kernels/batch_norm.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/kernels/pool.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

void expect_takes(const nn::Module& layer, Epilogues epilogues) {
  SCOPED_TRACE(layer.describe());
  const nn::FusionRole role = layer.fusion_role();
  EXPECT_EQ(role.activation(), Activation::none);
  for (const Activation activation : all_activations)
    EXPECT_EQ(role.takes(activation), activation != Activation::none && epilogues.contains(activation))
        << name_of(activation);
}

TEST(FusionRole, OfLayersIsThatOfTheirFamily) {
  expect_takes(nn::Linear(3, 4), MatmulKernels::epilogues);
  expect_takes(nn::Conv2d(3, 4, 1), ConvKernels::epilogues);
  expect_takes(nn::BatchNorm1d(3), BatchNormKernels::epilogues);
  expect_takes(nn::BatchNorm2d(3), BatchNormKernels::epilogues);
  expect_takes(nn::MaxPool2d(2), PoolKernels::epilogues);
  expect_takes(nn::LayerNorm(Shape{3}), {});
  expect_takes(nn::GELU(), {});
  expect_takes(nn::Sequential(nn::Linear(3, 4)), {});
}

TEST(FusionRole, NamesTheActivation) {
  EXPECT_EQ(nn::ReLU().fusion_role().activation(), Activation::relu);
  EXPECT_EQ(nn::GELU(Approximate::tanh).fusion_role().activation(), Activation::gelu_tanh);
}

/// A layer, or an activation, with its own forward.
template <class Layer>
struct Doubled : Layer {
  using Layer::Layer;
  Tensor forward(const Tensor& x) override { return ++calls, Layer::forward(x) * 2; }
  int calls = 0;
};

struct Result {
  std::vector<double> value;
  std::vector<std::vector<double>> grads;
  std::uint64_t allocations;
  bool operator==(const Result&) const = default;
};

/// The value of run(x), all gradients, and the number of allocations.
template <class F>
Result result_of(nn::Module& net, const Tensor& values, const F& run) {
  net.zero_grad();
  const std::uint64_t before = test::statistics().allocations;
  const Tensor x = values.detach().set_requires_grad(), y = run(x);
  sum(y * y).backward();
  Result r{y.to_vector<double>(), {x.grad().to_vector<double>()}, test::statistics().allocations - before};
  for (const Tensor& p : net.parameters()) r.grads.push_back(p.grad().to_vector<double>());
  return r;
}

/// Runs the two, of which `doubled` is one, in a Sequential and one after the other, checkpointed or not.
template <class Doubled>
void expect_alone(const Shape& x_shape, std::shared_ptr<nn::Module> first, std::shared_ptr<nn::Module> second,
                  const Doubled& doubled) {
  nn::Sequential net(first, second);
  const Tensor x = test::random_tensor(x_shape, DType::f32);
  for (const auto& [first_checkpointed, second_checkpointed] : {std::pair(0, 0), {0, 1}, {1, 0}, {1, 1}}) {
    SCOPED_TRACE(detail::concat(first->describe(), " and ", second->describe(), ", checkpointed: ", first_checkpointed,
                                ' ', second_checkpointed));
    first->set_checkpointed(first_checkpointed);
    second->set_checkpointed(second_checkpointed);
    const int before = doubled.calls;
    const Result in_sequential = result_of(net, x, [&](const Tensor& input) { return net(input); });
    EXPECT_GT(doubled.calls, before);
    EXPECT_TRUE(in_sequential == result_of(net, x, [&](const Tensor& input) { return (*second)((*first)(input)); }));
  }
}

template <class Layer>
void expect_own_forward(const Shape& x_shape, const auto&... arguments) {
  const auto layer = std::make_shared<Doubled<Layer>>(arguments...);
  expect_alone(x_shape, layer, std::make_shared<nn::ReLU>(), *layer);
  const auto relu = std::make_shared<Doubled<nn::ReLU>>();
  expect_alone(x_shape, std::make_shared<Layer>(arguments...), relu, *relu);
}

TEST(FusionRole, IsNotInheritedSoADerivedClassRunsItsOwnForward) {
  expect_own_forward<nn::Linear>({5, 3}, 3, 4);
  expect_own_forward<nn::Conv2d>({2, 3, 5, 5}, 3, 4, 3);
  expect_own_forward<nn::BatchNorm1d>({5, 3}, 3);
  expect_own_forward<nn::BatchNorm2d>({2, 3, 4, 4}, 3);
  const auto gelu = std::make_shared<Doubled<nn::GELU>>(Approximate::tanh);
  expect_alone({5, 3}, std::make_shared<nn::Linear>(3, 4), gelu, *gelu);
}

TEST(FusionRole, AMaximumTakesTheActivationBeforeIt) {
  const auto conv = std::make_shared<nn::Conv2d>(3, 8, 3);
  const auto relu = std::make_shared<nn::ReLU>();
  const auto pool = std::make_shared<nn::MaxPool2d>(2);
  nn::Sequential net(conv, relu, pool);
  const Tensor x = test::random_tensor({4, 3, 20, 20}, DType::f32);
  const Result fused = result_of(net, x, [&](const Tensor&input) { return net(input); }),
               apart = result_of(net, x, [&](const Tensor&input) { return (*pool)((*relu)((*conv)(input))); });
  EXPECT_EQ(fused.value, apart.value);
  EXPECT_EQ(fused.grads, apart.grads);
  EXPECT_LT(fused.allocations, apart.allocations);
  const std::size_t before = test::allocated();
  const Tensor y = net(x);
  const std::size_t saved = test::allocated() - before - test::rounded(y.nbytes());
  EXPECT_LE(saved, test::rounded(x.nbytes()) + test::rounded(static_cast<std::size_t>(y.numel())))
      << "the result of the convolution is kept";
}

TEST(FusionRole, AMaximumHoldsNoMoreThanItsInput) {
  nn::Sequential net{nn::Conv2d(8, 32, 3), nn::Conv2d(32, 32, 1), nn::ReLU(), nn::MaxPool2d(2)};
  const Tensor x = test::random_tensor({4, 8, 66, 66}, DType::f32);
  const auto peak_of = [&](const auto& run) {
    const NoGrad no_grad;
    memory::reset_peaks();
    const std::size_t before = test::allocated();
    run();
    return test::statistics().allocated.peak - before;
  };
  peak_of([&] { net(x); });  // plans
  EXPECT_LE(peak_of([&] { net(x); }), peak_of([&] {
              Tensor y = net[0](x);
              y = net[1](y);
              relu_(y);
              y = net[3](y);
            }));
}

TEST(FusionRole, DerivedAndHookedLayersRunAlone) {
  const Tensor x = test::random_tensor({2, 3, 6, 6}, DType::f32);
  const auto relu = std::make_shared<nn::ReLU>();
  const auto doubled = std::make_shared<Doubled<nn::MaxPool2d>>(2);
  nn::Sequential net(std::make_shared<nn::Conv2d>(3, 4, 3), relu, doubled);
  const Result in_sequential = result_of(net, x, [&](const Tensor& input) { return net(input); });
  EXPECT_EQ(doubled->calls, 1);
  EXPECT_TRUE(in_sequential ==
              result_of(net, x, [&](const Tensor& input) { return (*doubled)(relu_(net[0](input))); }));

  int seen = 0;
  const auto pool = std::make_shared<nn::MaxPool2d>(2);
  const auto hook = pool->register_forward_hook([&](const nn::Module&, const auto& inputs, auto&) {
    ++seen;
    EXPECT_GE(min(inputs[0]).template item<float>(), 0) << "ReLU did not run before the pooling";
  });
  nn::Sequential(std::make_shared<nn::Conv2d>(3, 4, 3), relu, pool)(x);
  EXPECT_EQ(seen, 1);

  const auto dropout = std::make_shared<Doubled<nn::Dropout>>(0.0);
  expect_alone({2, 3, 4, 4}, dropout, std::make_shared<nn::Flatten>(), *dropout);
  const auto flatten = std::make_shared<Doubled<nn::Flatten>>();
  expect_alone({2, 3, 4, 4}, std::make_shared<nn::Dropout>(0.0), flatten, *flatten);
}

TEST(FusionRole, DropoutMakesTheCopyForAFlattenBehindIt) {
  const auto dropout = std::make_shared<nn::Dropout>(0.4);
  const Tensor x = channels_last(test::random_tensor({4, 8, 6, 6}, DType::f32));
  const auto run = [&](nn::Sequential& net, const auto& f) {
    manual_seed(5);
    return result_of(net, x, f);
  };
  const auto compare = [&](const std::shared_ptr<nn::Flatten>& flatten) {
    nn::Sequential net(dropout, flatten);
    const Result fused = run(net, [&](const Tensor&input) { return net(input); }),
                 apart = run(net, [&](const Tensor&input) { return (*flatten)((*dropout)(input)); });
    EXPECT_EQ(fused.value, apart.value);
    EXPECT_EQ(fused.grads, apart.grads);
    return std::pair(fused.allocations, apart.allocations);
  };
  const auto all = compare(std::make_shared<nn::Flatten>()), some = compare(std::make_shared<nn::Flatten>(2));
  EXPECT_LT(all.first, all.second);
  EXPECT_EQ(some.first, some.second) << "height and width are flattened without a copy";
}

/// A layer that can be fused, of a class that bytetape does not know.
struct Shifted : nn::Module {
  nn::Parameter weight = register_parameter("weight", randn({4, 4})), bias = register_parameter("bias", randn({4}));
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias); }
  using Module::operator();
  Tensor operator()(const Tensor& x, Activation activation) {
    const auto body = [this, activation](const Tensor& x) { return linear(x, weight, bias, activation); };
    return nn::call(*this, body, x);
  }
  nn::FusionRole fusion_role() const override { return nn::FusionRole::for_layer(*this, {Activation::relu}); }
};
struct Rectifier : nn::Module {
  Tensor forward(const Tensor& x) override { return relu(x); }
  nn::FusionRole fusion_role() const override { return nn::FusionRole::for_activation(*this, Activation::relu); }
};
/// Derived, with roles of their own.
struct NamedLinear : nn::Linear {
  using Linear::Linear;
  nn::FusionRole fusion_role() const override { return nn::FusionRole::for_layer(*this, MatmulKernels::epilogues); }
};
struct NamedReLU : nn::ReLU {
  nn::FusionRole fusion_role() const override { return nn::FusionRole::for_activation(*this, Activation::relu); }
};

template <class Layer, class Behind>
std::string booked_under(Layer layer, Behind behind) {
  nn::Sequential net;
  net.push_back("layer", std::move(layer)).push_back("behind", std::move(behind));
  return memory::name_of(net(randn({2, 4})).storage().module());
}

TEST(FusionRole, IsForLayersOfYourOwn) {
  EXPECT_EQ(booked_under(Shifted(), nn::ReLU()), "layer");
  EXPECT_EQ(booked_under(nn::Linear(4, 4), Rectifier()), "layer");
  EXPECT_EQ(booked_under(NamedLinear(4, 4), NamedReLU()), "layer");
  EXPECT_EQ(booked_under(Shifted(), nn::GELU(Approximate::tanh)), "behind") << "which Shifted does not take";
  EXPECT_EQ(booked_under(Shifted(), nn::Tanh()), "behind");
  const auto shifted = std::make_shared<Shifted>();
  nn::Sequential net(shifted, nn::ReLU());
  const Tensor x = test::random_tensor({3, 4}, DType::f32);
  EXPECT_EQ(net(x).to_vector<float>(), relu((*shifted)(x)).to_vector<float>());
}

}  // namespace
}  // namespace bytetape
