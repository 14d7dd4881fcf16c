#include "bytetape/nn/parameter.h"

#include <type_traits>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using memory::Role;

// A handle taken from what registering gives would not be the module's.
static_assert(!std::is_constructible_v<Tensor, nn::Registration>);
static_assert(!std::is_assignable_v<Tensor&, nn::Registration>);
static_assert(std::is_nothrow_move_constructible_v<nn::Parameter>);
static_assert(!std::is_swappable_v<nn::Parameter>);

struct Scaled : nn::Module {
  nn::Parameter scale = register_parameter("scale", {2, 3});
  nn::Buffer seen = register_buffer("seen", zeros({1}, DType::i64));
  Tensor forward(const Tensor& x) override { return x * scale; }
};

struct Pair : nn::Module {
  nn::Linear in{3, 4}, out{3, 4, false};
  Pair() {
    register_module("in", in);
    register_module("out", out);
  }
  Tensor forward(const Tensor& x) override { return in(x) + out(x); }
};

std::string booked_under(const Tensor& x) { return memory::name_of(x.storage().module()); }

TEST(Parameter, AssignmentReplacesItForAllThatTheModuleDoes) {
  Pair net;
  const Tensor old = net.in.weight, t = randn({4, 3});
  net.in.weight = t;
  EXPECT_TRUE(net.in.weight.is_same(t));
  EXPECT_TRUE(net.parameters()[0].is_same(t));
  EXPECT_TRUE(net.state_dict()[0].second.is_same(t));
  EXPECT_TRUE(t.requires_grad());
  EXPECT_EQ(t.storage().role(), Role::parameter);
  EXPECT_EQ(booked_under(t), "in");
  EXPECT_EQ(old.storage().role(), Role::temporary);

  sum(net(randn({2, 3}))).backward();
  EXPECT_TRUE(t.grad().defined());
  EXPECT_FALSE(old.grad().defined());
  net.zero_grad();
  EXPECT_FALSE(t.grad().defined());
  auto state = Pair().state_dict();
  net.load_state_dict(state);
  EXPECT_EQ(t.to_vector<float>(), state[0].second.to_vector<float>());
  net.to(DType::f64);
  EXPECT_TRUE(net.in.weight.is_same(t));
  EXPECT_EQ(t.dtype(), DType::f64);
}

TEST(Parameter, AssigningAnotherTiesThem) {
  Pair net;
  net.out.weight = net.in.weight;
  EXPECT_EQ(net.parameters().size(), 2u);  // one weight, one bias
  EXPECT_EQ(net.state_dict().size(), 3u);
  EXPECT_EQ(booked_under(net.out.weight), "in") << "the place that had it first";
  const Tensor x = ones({1, 3});
  sum(net(x)).backward();
  EXPECT_EQ(net.in.weight.grad().to_vector<float>(), std::vector<float>(12, 2));

  net.in.weight = randn({4, 3});
  EXPECT_EQ(net.parameters().size(), 3u) << "assigning unties";
}

TEST(Parameter, ATiedOneStaysBookedUnderItsFirstPlaceWhereThatIsRenamed) {
  Pair net;
  net.out.weight = net.in.weight;
  nn::Sequential outer(std::move(net));
  EXPECT_EQ(booked_under(outer.get_parameter("0.out.weight")), "0 Pair.in");
}

TEST(Parameter, TyingKeepsAFrozenOneFrozen) {
  Pair net;
  net.in.weight.set_requires_grad(false);
  net.out.weight = net.in.weight;
  EXPECT_FALSE(net.out.weight.requires_grad());
}

TEST(Parameter, AssignmentChecksAsRegisteringDoes) {
  nn::Linear fc(3, 4);
  const Tensor before = fc.weight;
  EXPECT_THROWS_SAYING(fc.weight = fc.weight * 2, AutogradError, "parameter 'weight' of Linear: a parameter is a leaf");
  EXPECT_THROWS_SAYING(fc.weight = ones({4, 3}, DType::i64), DTypeError, "a parameter is floating, not i64(4, 3)");
  EXPECT_TRUE(fc.weight.is_same(before));
  EXPECT_TRUE(fc.parameters()[0].is_same(before));
  nn::Parameter loose;
  EXPECT_THROWS_SAYING(loose = ones({2}), ValueError, "so nothing would train f32(2,) on cpu: bind the member first");
  EXPECT_NO_THROW(loose = {}) << "which it was";
}

TEST(Parameter, ReplacedByAViewOfItselfStaysOneOnTheBooks) {
  nn::Linear fc(3, 4);
  fc.weight = fc.weight.detach();
  EXPECT_EQ(fc.weight.storage().role(), Role::parameter);
  EXPECT_TRUE(fc.weight.requires_grad());
}

TEST(Parameter, AnUndefinedTensorRemovesIt) {
  nn::Linear fc(3, 4);
  fc.bias = {};
  EXPECT_EQ(fc.parameters().size(), 1u);
  EXPECT_EQ(fc.describe(), "Linear(3, 4, bias=false)");
  EXPECT_EQ(fc(zeros({1, 3})).to_vector<float>(), std::vector<float>(4, 0));
  fc.bias = ones({4});
  EXPECT_EQ(fc.named_parameters()[1].first, "bias");
  EXPECT_EQ(fc(zeros({1, 3})).to_vector<float>(), std::vector<float>(4, 1));
}

TEST(Parameter, ALayerWithoutOneTakesOne) {
  nn::Linear fc(3, 4, false);
  fc.bias = ones({4});
  EXPECT_EQ(fc.parameters().size(), 2u);
}

TEST(Parameter, ABufferIsAssignedLikewise) {
  Scaled m;
  const Tensor t = full({1}, 5, DType::i64);
  m.seen = t;
  EXPECT_TRUE(m.state_dict()[1].second.is_same(t));
  EXPECT_FALSE(t.requires_grad());
  EXPECT_EQ(t.storage().role(), Role::parameter);
}

TEST(Parameter, MovesWithItsModule) {
  nn::Linear fc(3, 4);
  const Tensor weight = fc.weight;
  nn::Linear moved(std::move(fc));
  EXPECT_TRUE(moved.weight.is_same(weight));
  moved.weight = ones({4, 3});
  EXPECT_TRUE(moved.parameters()[0].is_same(moved.weight));
}

TEST(Parameter, IsATensorToAllThatTakesOne) {
  Scaled m;
  nn::init::constant_(m.scale, 2);
  {
    const NoGrad no_grad;
    m.scale *= 3;
  }
  EXPECT_EQ(m.scale.to_vector<float>(), std::vector<float>(6, 6));
  const Tensor handle = m.scale;
  EXPECT_TRUE(handle.is_same(m.parameters()[0]));
  EXPECT_EQ(cat({m.scale, m.scale}, 0).shape(), (Shape{4, 3}));
}

TEST(Parameter, ACopyIsAHandleAlone) {
  nn::Linear fc(3, 4);
  const Tensor weight = fc.weight;
  auto w = fc.weight;
  EXPECT_TRUE(w.is_same(weight));
  w = w * 2;  // another tensor for the handle, and for nothing else
  EXPECT_TRUE(fc.weight.is_same(weight));
  EXPECT_TRUE(fc.parameters()[0].is_same(weight));
  EXPECT_FALSE(w.is_leaf());
  for (auto p : {fc.weight, fc.bias}) p = {};
  EXPECT_TRUE(fc.bias.defined());
  const nn::Linear moved(std::move(fc));
  auto late = moved.weight;
  auto further = std::move(late);
  further = ones({2});
  EXPECT_TRUE(moved.weight.is_same(weight));
}

TEST(Parameter, ACopyBecomesAMemberWhereItIsRegistered) {
  struct Net : nn::Module {
    nn::Parameter weight;
    explicit Net(const nn::Linear& fc) : weight(fc.weight) { weight = register_parameter("weight", weight); }
  };
  const nn::Linear fc(3, 4);
  Net net(fc);
  EXPECT_TRUE(net.parameters()[0].is_same(fc.weight));
  net.weight = randn({2});
  EXPECT_TRUE(net.parameters()[0].is_same(net.weight));
}

TEST(Parameter, AnAssignmentPastItIsMadeGood) {
  Scaled m;
  Tensor& plain = m.scale;
  const Tensor t = randn({2, 3});
  plain = t;
  EXPECT_TRUE(m.parameters()[0].is_same(t));
  EXPECT_TRUE(t.requires_grad());
}

TEST(Parameter, AnOptimizerMadeBeforeAnAssignmentSaysSo) {
  Pair net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  const auto step = [&] {
    sum(net(randn({2, 3}))).backward();
    sgd.step();
  };
  const Tensor old = net.out.weight;
  net.out.weight = net.out.weight;
  step();
  net.out.weight = randn({4, 3});
  EXPECT_THROWS_SAYING(step(), ValueError, "sgd: parameter 2, f32(4, 3) on cpu, was replaced in its module");
  net.out.weight = old;
  step();
  net.out.weight = net.in.weight;
  EXPECT_THROWS_SAYING(step(), ValueError, "make a new optimizer");
}

TEST(Parameter, AnOptimizerOutlivesOneOfTwoTiesAndTheModule) {
  auto net = std::make_unique<Pair>();
  net->out.weight = net->in.weight;
  const Tensor weight = net->in.weight;
  optim::SGD sgd(net->parameters(), {.lr = 0.1});
  net->out.weight = randn({4, 3});
  sgd.step();
  net.reset();
  EXPECT_NO_THROW(sgd.step());
}

}  // namespace
}  // namespace bytetape
