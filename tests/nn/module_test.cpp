#include "bytetape/nn/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Block : nn::Module {
  nn::Linear fc1{4, 5}, fc2{5, 3};
  Block() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

struct Net : nn::Module {
  nn::Sequential body{std::make_shared<Block>(), nn::ReLU()};
  nn::BatchNorm2d norm{3};
  Net() {
    register_module("body", body);
    register_module("norm", norm);
  }
  Tensor forward(const Tensor& x) override { return body(x); }
};

std::vector<std::string> names_of(const nn::NamedTensors& list) {
  std::vector<std::string> names;
  for (const auto& [name, x] : list) names.push_back(name);
  return names;
}

TEST(Module, NamesParametersAndBuffersAsPyTorchDoes) {
  Net net;
  EXPECT_THAT(names_of(net.named_parameters()), ElementsAre("body.0.fc1.weight", "body.0.fc1.bias", "body.0.fc2.weight",
                                                            "body.0.fc2.bias", "norm.weight", "norm.bias"));
  EXPECT_THAT(names_of(net.named_buffers()),
              ElementsAre("norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
  EXPECT_THAT(names_of(net.state_dict()),
              ElementsAre("body.0.fc1.weight", "body.0.fc1.bias", "body.0.fc2.weight", "body.0.fc2.bias", "norm.weight",
                          "norm.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
}

TEST(Module, BooksParametersUnderTheirPath) {
  Net net;
  const auto parameters = net.named_parameters();
  EXPECT_EQ(memory::name_of(parameters[0].second.storage().module()), "body.0.fc1");
  EXPECT_EQ(parameters[0].second.storage().role(), memory::Role::parameter);
  EXPECT_EQ(memory::name_of(parameters[4].second.storage().module()), "norm");
}

TEST(Module, BooksPutAnOpenScopeInFront) {
  const memory::ModuleScope scope(memory::intern("outer.encoder"));
  Net net;
  EXPECT_EQ(memory::name_of(net.named_parameters()[0].second.storage().module()), "outer.encoder.body.0.fc1");
}

TEST(Module, ErrorsNameTheModulePathAndEveryShape) {
  Net net;
  EXPECT_THAT(
      [&] {
        net(randn({2, 7}));
      },
      ThrowsMessage<ShapeError>(
          AllOf(HasSubstr("linear"), HasSubstr("body.0.fc1"), HasSubstr("(2, 7)"), HasSubstr("(5, 4)"))));
}

TEST(Module, GradientsAndActivationsAreBookedUnderTheirModule) {
  Net net;
  sum(net(randn({2, 4}))).backward();
  for (const auto& [name, x] : net.body.named_parameters()) {
    ASSERT_TRUE(x.grad().defined()) << name;
    EXPECT_EQ(x.grad().storage().role(), memory::Role::gradient) << name;
    EXPECT_EQ(x.grad().storage().module(), x.storage().module()) << name;
  }
}

TEST(Module, TrainAndEvalReachEveryModule) {
  Net net;
  net.eval();
  EXPECT_FALSE(net.is_training());
  EXPECT_FALSE(net.norm.is_training());
  EXPECT_FALSE(net.body[0].is_training());
  net.train();
  EXPECT_TRUE(net.body[0].is_training());
}

TEST(Module, StateDictRoundTrip) {
  Net a, b;
  b.load_state_dict(a.state_dict());
  const auto left = a.state_dict(), right = b.state_dict();
  for (std::size_t i = 0; i < left.size(); ++i)
    EXPECT_EQ(left[i].second.to_vector<double>(), right[i].second.to_vector<double>()) << left[i].first;
  EXPECT_FALSE(left[0].second.is_same(right[0].second));
}

TEST(Module, LoadNamesEveryMissingAndUnexpectedKeyAndChangesNothing) {
  Net net;
  auto state = net.state_dict();
  for (auto& [name, x] : state) x = is_floating(x.dtype()) ? randn(x.shape()) : x;
  const auto before = net.body.named_parameters()[0].second.to_vector<float>();
  state.pop_back();
  state.emplace_back("norm.extra", randn({3}));
  EXPECT_THAT([&] { net.load_state_dict(state); },
              ThrowsMessage<ValueError>(AllOf(HasSubstr("norm.num_batches_tracked"), HasSubstr("norm.extra"))));
  EXPECT_EQ(net.body.named_parameters()[0].second.to_vector<float>(), before);
  net.load_state_dict(state, false);
  EXPECT_NE(net.body.named_parameters()[0].second.to_vector<float>(), before);
}

TEST(Module, LoadRejectsAWrongShape) {
  Net net;
  auto state = net.state_dict();
  state[0].second = randn({5, 5});
  EXPECT_THAT(
      [&] { net.load_state_dict(state); },
      ThrowsMessage<ShapeError>(AllOf(HasSubstr("body.0.fc1.weight"), HasSubstr("(5, 4)"), HasSubstr("(5, 5)"))));
}

TEST(Module, ToKeepsTheIdentityOfParameters) {
  Net net;
  const auto parameters = net.parameters();
  sum(net(randn({2, 4}))).backward();
  net.to(DType::f64);
  EXPECT_TRUE(net.parameters()[0].is_same(parameters[0]));
  EXPECT_EQ(parameters[0].dtype(), DType::f64);
  EXPECT_EQ(parameters[0].grad().dtype(), DType::f64);
  EXPECT_EQ(parameters[0].storage().role(), memory::Role::parameter);
  EXPECT_EQ(net.norm.num_batches_tracked.dtype(), DType::i64);
  net.to(Device::meta());
  EXPECT_TRUE(parameters[0].device().is_meta);
}

TEST(Module, AMoveThatWouldLeaveMembersBehindThrows) {
  Block block;
  EXPECT_THAT([&] { Block moved(std::move(block)); }, ThrowsMessage<ValueError>(HasSubstr("make_shared")));
}

TEST(Module, RejectsBadNames) {
  struct Bad : nn::Module {
    explicit Bad(const std::string& name) {
      register_parameter("taken", randn({1}));
      register_parameter(name, randn({1}));
    }
    Tensor forward(const Tensor& x) override { return x; }
  };
  EXPECT_THROW(Bad("taken"), ValueError);
  EXPECT_THROW(Bad("a.b"), ValueError);
  EXPECT_THROW(Bad(""), ValueError);
}

TEST(Module, SharedParametersCountOnce) {
  struct Tied : nn::Module {
    explicit Tied(const Tensor& w) {
      register_parameter("a", w);
      register_parameter("b", w);
    }
    Tensor forward(const Tensor& x) override { return x; }
  };
  EXPECT_EQ(Tied(randn({2})).parameters().size(), 1u);
}

TEST(Module, ApplyVisitsChildrenFirst) {
  Net net;
  std::vector<std::string> order;
  net.apply([&](nn::Module& m) { order.push_back(m.describe()); });
  EXPECT_EQ(order.front(), "Linear(4, 5)");
  EXPECT_EQ(order.size(), 7u);
}

TEST(Summary, CountsParametersAndBytes) {
  Net net;
  const std::string text = nn::summary(net);
  EXPECT_THAT(text, HasSubstr("body.0.fc1"));
  EXPECT_THAT(text, HasSubstr("weight (5, 4)"));
  EXPECT_THAT(text, HasSubstr("49"));  // 5*4+5 + 3*5+3 + 3+3
}

TEST(Summary, HasRoomForLargeCounts) {
  const DefaultDevice meta(Device::meta());
  nn::Linear layer(100000, 1000);
  const std::string text = nn::summary(layer);
  const auto lines = [&] {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }();
  EXPECT_THAT(text, HasSubstr("100,001,000"));
  EXPECT_EQ(lines.front().size(), lines.back().size());
  EXPECT_EQ(lines.front().size(), lines[2].size());
}

TEST(Summary, CountsFrozenParametersToo) {
  nn::Linear layer(4, 5);
  layer.weight.set_requires_grad(false);
  const std::string text = nn::summary(layer);
  EXPECT_THAT(text, HasSubstr("weight (5, 4) (frozen)"));
  EXPECT_THAT(text, HasSubstr("25"));
}

TEST(Module, IsNamedByTheParentThatRunsIt) {
  const auto shared = std::make_shared<nn::Linear>(3, 3);
  nn::Sequential net(nn::Sequential(shared, nn::ReLU()), nn::Sequential(nn::ReLU(), nn::ReLU(), shared));
  const Tensor x = randn({2, 4});
  EXPECT_THROWS_SAYING(net(x), ShapeError, "linear in module '0.0'");
  EXPECT_THROWS_SAYING(net[1](x), ShapeError, "linear in module '1.2'");
  EXPECT_THROWS_SAYING(net(x), ShapeError, "linear in module '0.0'");
}

// A layer is moved in or shared: an lvalue would have to be copied.
static_assert(!std::is_constructible_v<nn::Sequential, nn::Sequential&, nn::ReLU>);
static_assert(!std::is_constructible_v<nn::Sequential, nn::Linear&>);
static_assert(std::is_constructible_v<nn::Sequential, nn::Linear, const std::shared_ptr<nn::Linear>&>);

}  // namespace
}  // namespace bytetape
