#include "bytetape/nn/module.h"

#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Block : nn::Module {
  nn::Linear fc1{4, 5}, fc2{5, 3};
  Block() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

struct Net : nn::Module {
  nn::Sequential body{Block(), nn::ReLU()};
  nn::BatchNorm2d norm{3};
  Net() {
    register_module("body", body);
    register_module("norm", norm);
  }
  Tensor forward(const Tensor& x) override { return body(x); }
};

// A module whose protected register functions are public.
struct Open : nn::Module {
  using Module::register_buffer;
  using Module::register_module;
  using Module::register_parameter;
};

std::vector<std::string> names_of(const nn::NamedTensors& list) {
  std::vector<std::string> names;
  for (const auto& [name, x] : list) names.push_back(name);
  return names;
}

std::string booked_under(const Tensor& x) { return memory::name_of(x.storage().module()); }

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

struct Tied : nn::Module {
  nn::Linear in{4, 4}, out{4, 4, false};
  nn::BatchNorm1d norm{4};
  Tied() {
    register_module("in", in);
    register_module("out", out);
    register_module("norm", norm);
    out.weight = in.weight;
    norm.running_var = norm.running_mean;
  }
};

TEST(Module, NamesATiedTensorOnceUnlessAskedForAllNames) {
  const Tied net;
  EXPECT_THAT(names_of(net.named_parameters()), ElementsAre("in.weight", "in.bias", "norm.weight", "norm.bias"));
  EXPECT_THAT(names_of(net.named_parameters(/*remove_duplicate=*/false)),
              ElementsAre("in.weight", "in.bias", "out.weight", "norm.weight", "norm.bias"));
  EXPECT_THAT(names_of(net.named_buffers()), ElementsAre("norm.running_mean", "norm.num_batches_tracked"));
  EXPECT_THAT(names_of(net.named_buffers(false)),
              ElementsAre("norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
  EXPECT_THAT(names_of(net.state_dict()),
              ElementsAre("in.weight", "in.bias", "out.weight", "norm.weight", "norm.bias", "norm.running_mean",
                          "norm.running_var", "norm.num_batches_tracked"));
}

TEST(Module, SplitsByDecayAlsoWithTiedParameters) {
  Tied net;
  std::vector<Tensor> decayed, kept;
  for (const auto& [name, p] : net.named_parameters()) (p.rank() > 1 ? decayed : kept).push_back(p);
  EXPECT_NO_THROW((optim::AdamW({{.params = decayed, .weight_decay = 0.1}, {.params = kept, .weight_decay = 0}})));
  kept.push_back(net.out.weight);
  EXPECT_THROWS_SAYING((optim::AdamW({{.params = decayed}, {.params = kept}})), ValueError,
                       "parameter 4, f32(4, 4) on cpu of module 'in', appears twice: it is parameter 0 too");
}

TEST(Module, FindsWhatIsBelowByItsPath) {
  Net net;
  EXPECT_TRUE(net.get_parameter("body.0.fc2.bias").is_same(net.body[0].as<Block>().fc2.bias));
  EXPECT_TRUE(net.get_buffer("norm.running_mean").is_same(net.norm.running_mean));
  EXPECT_EQ(&net.get_submodule("body.0"), &net.body[0]);
  EXPECT_EQ(&net.get_submodule(""), &net);
  const Tied tied;
  EXPECT_TRUE(tied.get_parameter("out.weight").is_same(tied.in.weight)) << "any name of a tied one";
  EXPECT_TRUE(tied.get_buffer("norm.running_var").is_same(tied.norm.running_mean));
  EXPECT_THROWS_SAYING(net.get_parameter("norm.running_mean"), ValueError, "Net has no parameter 'norm.running_mean'");
  EXPECT_THROWS_SAYING(net.get_buffer("norm.weight"), ValueError, "Net has no buffer 'norm.weight'");
  EXPECT_THROWS_SAYING(net.get_submodule("body.2"), ValueError, "Net has no module 'body.2'");
}

TEST(Module, IsTakenAsTheClassThatItIs) {
  nn::Sequential net{nn::Linear(3, 4), nn::ReLU()};
  net[0].as<nn::Linear>().weight = ones({4, 3});
  EXPECT_EQ(net.parameters()[0].to_vector<float>(), std::vector<float>(12, 1));
  EXPECT_THROWS_SAYING(net[1].as<nn::Linear>(), ValueError, "as<Linear>() of ReLU");
}

TEST(Module, MovesAndConvertsAtOnce) {
  Net net;
  EXPECT_EQ(&net.to(Device::meta(), DType::f16), &net);
  EXPECT_EQ(net.norm.running_mean.dtype(), DType::f16);
  EXPECT_EQ(net.norm.num_batches_tracked.dtype(), DType::i64);
  for (const auto& [name, x] : net.state_dict()) EXPECT_EQ(x.device(), Device::meta()) << name;
  EXPECT_THROWS_SAYING(net.to(Device::meta(), DType::i64), DTypeError, "a model's parameters are floating, not i64");
}

TEST(Module, BooksParametersUnderTheirPath) {
  Net net;
  const auto parameters = net.parameters();
  EXPECT_EQ(booked_under(parameters[0]), "body.0 Block.fc1");
  EXPECT_EQ(parameters[0].storage().role(), memory::Role::parameter);
  EXPECT_EQ(booked_under(parameters[4]), "norm");
}

TEST(Module, BooksPutAnOpenScopeInFront) {
  const memory::ModuleScope scope(memory::intern("outer.encoder"));
  Net net;
  EXPECT_EQ(booked_under(net.parameters()[0]), "outer.encoder.body.0 Block.fc1");
}

TEST(Module, BooksASharedModuleUnderItsFirstParent) {
  const auto shared = std::make_shared<nn::Linear>(3, 3);
  nn::Sequential first(nn::ReLU(), shared), second(shared);
  nn::Sequential net(std::move(first), std::move(second));
  EXPECT_EQ(booked_under(shared->weight), "0 Sequential.1 Linear");
}

TEST(Module, BooksATensorWithTwoNamesOnce) {
  Open inner, outer;
  const Tensor w = randn({2});
  inner.register_parameter("a", w);
  inner.register_parameter("b", w);
  outer.register_module("inner", inner);
  EXPECT_EQ(booked_under(w), "inner");
  EXPECT_EQ(outer.parameters().size(), 1u);
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

TEST(Module, ApplyVisitsChildrenFirst) {
  Net net;
  std::vector<std::string> order;
  net.apply([&](nn::Module& m) { order.push_back(m.describe()); });
  EXPECT_THAT(order,
              ElementsAre("Linear(4, 5)", "Linear(5, 3)", "Block", "ReLU()", "Sequential", "BatchNorm2d(3)", "Net"));
}

TEST(Module, RegisteringChecksNamesAndTensors) {
  Open m;
  m.register_parameter("taken", randn({1}));
  EXPECT_THROWS_SAYING(m.register_buffer("taken", randn({1})), ValueError, "buffer 'taken' of Open: the name is");
  nn::Linear child(1, 1);
  EXPECT_THROWS_SAYING(m.register_module("taken", child), ValueError, "module 'taken' of Open: the name is");
  EXPECT_THROWS_SAYING(m.register_parameter("a.b", {1}), ValueError, "has no '.'");
  EXPECT_THROWS_SAYING(m.register_parameter("7 x", {1}), ValueError, "a number and a space");
  EXPECT_THROWS_SAYING(m.register_parameter("(root) x", {1}), ValueError, "(root) ");
  Open other;
  for (const char* name : {"7x", "77", "x 7", " x"}) EXPECT_NO_THROW(other.register_parameter(name, {1}));
  EXPECT_THROWS_SAYING(m.register_parameter("", {1}), ValueError, "is not empty");
  EXPECT_THROWS_SAYING(m.register_parameter("w", ones({1}, DType::i32)), DTypeError, "parameter 'w' of Open: ");
  EXPECT_THROWS_SAYING(m.register_parameter("w", randn({1}).set_requires_grad() * 2), AutogradError, "'w' of Open: ");
  EXPECT_THROWS_SAYING(m.register_module("null", nullptr), ValueError, "'null' is null");
  EXPECT_EQ(m.state_dict().size(), 1u);
}

TEST(Module, ANameWithoutATensorIsFilledLater) {
  Open m;
  nn::Parameter late = m.register_parameter("late", Tensor());
  EXPECT_TRUE(m.state_dict().empty());
  late = ones({2});
  EXPECT_THAT(names_of(m.named_parameters()), ElementsAre("late"));
}

TEST(Module, OutOfMemoryNamesTheParameter) {
  const DefaultDevice here(Device::meta());
  const std::size_t limit = memory::snapshot(Device::meta()).limit;
  memory::set_limit(1 << 20, Device::meta());
  EXPECT_THROWS_SAYING(nn::Linear(1 << 10, 1 << 10), OutOfMemory, "requested by parameter 'weight' of Linear");
  memory::set_limit(limit, Device::meta());
}

TEST(Module, MembersThatMoveAreFoundAgain) {
  struct Stack : nn::Module {
    std::vector<nn::Linear> layers;
    Stack() {
      for (int i = 0; i < 5; ++i) register_module(std::to_string(i), layers.emplace_back(3, 3));
    }
    Tensor forward(const Tensor& x) override {
      Tensor y = x;
      for (nn::Linear& layer : layers) y = layer(y);
      return y;
    }
  } stack;
  EXPECT_EQ(stack.parameters().size(), 10u);
  EXPECT_TRUE(stack.parameters()[2].is_same(stack.layers[1].weight));
  EXPECT_EQ(booked_under(stack(randn({1, 3}))), "4 Linear");
}

// A list that is registered first and filled then, as a block's shortcut is where shapes change.
TEST(Module, WhatIsAddedBelowAChildIsBookedBelowIt) {
  struct Late : nn::Module {
    nn::Sequential shortcut;
    Late() {
      register_module("shortcut", shortcut);
      shortcut.push_back(nn::Linear(3, 3));
    }
    Tensor forward(const Tensor& x) override { return shortcut(x); }
  };
  Late alone;
  EXPECT_EQ(booked_under(alone.parameters()[0]), "shortcut.0 Linear");
  EXPECT_EQ(booked_under(alone(randn({1, 3}))), "shortcut.0 Linear");
  nn::Sequential net;
  net.push_back(Late());
  EXPECT_EQ(booked_under(net.parameters()[0]), "0 Late.shortcut.0 Linear");
  EXPECT_EQ(booked_under(net(randn({1, 3}))), "0 Late.shortcut.0 Linear");
}

TEST(Module, WhatIsAddedWhileAModuleRunsIsBookedBelowIt) {
  struct Lazy : nn::Module {
    std::shared_ptr<nn::Linear> own;
    nn::Sequential filled;
    Lazy() { register_module("filled", filled); }
    Tensor forward(const Tensor& x) override {
      if (!own) {
        own = std::make_shared<nn::Linear>(3, 3);
        register_module("own", own);
        filled.push_back(nn::Linear(3, 3));
      }
      return filled((*own)(x));
    }
  };
  nn::Sequential net;
  net.push_back(Lazy());
  net(randn({1, 3}));
  const auto parameters = net.named_parameters();
  ASSERT_THAT(names_of(parameters), ElementsAre("0.filled.0.weight", "0.filled.0.bias", "0.own.weight", "0.own.bias"));
  EXPECT_EQ(booked_under(parameters[0].second), "0 Lazy.filled.0 Linear");
  EXPECT_EQ(booked_under(parameters[2].second), "0 Lazy.own");
}

TEST(Module, MovesWithItsMembers) {
  Net net;
  const Tensor first = net.parameters()[0];
  nn::Sequential outer(std::move(net), nn::ReLU());
  EXPECT_EQ(outer.named_parameters()[0].first, "0.body.0.fc1.weight");
  EXPECT_TRUE(outer.parameters()[0].is_same(first));
  EXPECT_EQ(booked_under(first), "0 Net.body.0 Block.fc1");
  EXPECT_TRUE(net.parameters().empty());
  EXPECT_THROWS_SAYING(outer(randn({2, 7})), ShapeError, "linear in module '0 Net.body.0 Block.fc1'");
}

TEST(Module, AMemberThatEndedIsNamed) {
  Open parent;
  {
    nn::Linear fc(3, 2);
    parent.register_module("fc", fc);
    EXPECT_EQ(parent.parameters().size(), 2u);
  }
  EXPECT_THROWS_SAYING(parent.parameters(), ValueError, "the child 'fc' ended before");
  EXPECT_THROWS_SAYING(parent.eval(), ValueError, "the child 'fc' ended before");
  EXPECT_THROWS_SAYING(nn::summary(parent), ValueError, "the child 'fc' ended before");
}

TEST(Module, AChildOutlivesItsParent) {
  nn::Linear fc(3, 2);
  {
    Open parent;
    parent.register_module("fc", fc);
    EXPECT_THROWS_SAYING(fc(randn({1, 4})), ShapeError, "in module 'fc'");
  }
  EXPECT_NO_THROW(fc(randn({1, 3})));
  Open other;
  other.register_module("head", fc);
  EXPECT_THROWS_SAYING(fc(randn({1, 4})), ShapeError, "in module 'head'");
}

TEST(Module, NoneContainsItself) {
  const auto outer = std::make_shared<nn::Sequential>(), inner = std::make_shared<nn::Sequential>();
  outer->push_back(inner);
  EXPECT_THROWS_SAYING(inner->push_back(outer), ValueError, "contains the one that it is registered with");
  EXPECT_EQ(inner->size(), 0u);
}

TEST(Module, IsMadeOnTheDefaultDevice) {
  const DefaultDevice meta(Device::meta());
  const auto before = memory::stats(Device::cpu()).allocations;
  nn::Linear fc(100000, 100000);
  nn::BatchNorm2d norm(100000);
  for (const auto* m : {static_cast<nn::Module*>(&fc), static_cast<nn::Module*>(&norm)})
    for (const auto& [name, x] : m->state_dict()) EXPECT_TRUE(x.device().is_meta) << name;
  EXPECT_EQ(memory::stats(Device::cpu()).allocations, before);
}

}  // namespace
}  // namespace bytetape
