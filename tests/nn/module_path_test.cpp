// The path of a parameter that is registered late, or made before its module is adopted.
#include <gtest/gtest.h>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {
namespace {

using memory::Role;

// A module whose protected register functions are public.
struct Open : nn::Module {
  using Module::register_buffer;
  using Module::register_module;
  using Module::register_parameter;
};

struct Nested {
  Open inner, list, outer;
  Nested() {
    list.register_module("0", inner);
    outer.register_module("list", list);
  }
};

std::string booked_under(const Tensor& x) { return memory::name_of(x.storage().module()); }

std::size_t held(const std::string& module, Role role) {
  const auto all = memory::snapshot(Device::cpu()).by_module;
  const memory::NameId id = memory::intern(module);
  return id < all.size() ? all[id][static_cast<std::size_t>(role)] : 0;
}

TEST(ModulePath, OfALateParameterIsItsModules) {
  Nested net;
  const nn::Parameter late = net.inner.register_parameter("late", {2});
  const nn::Buffer buffer = net.inner.register_buffer("buffer", ones({2}));
  nn::Parameter empty = net.inner.register_parameter("empty", Tensor());
  empty = ones({2});
  for (const Tensor& x : {Tensor(late), Tensor(buffer), Tensor(empty)}) EXPECT_EQ(booked_under(x), "list.0 Open");
}

TEST(ModulePath, OfALateParameterIsNotWhatRunsThen) {
  struct Lazy : Open {
    nn::Parameter scale;
    Tensor forward(const Tensor& x) override { return x * scale; }
  };
  struct Net : Open {
    Lazy lazy;
    Net() { register_module("lazy", lazy); }
    Tensor forward(const Tensor& x) override {
      if (!lazy.scale.defined()) lazy.scale = lazy.register_parameter("scale", {3});
      return lazy(x);
    }
  } net;
  const memory::Scope scope("first batch");
  net(randn({2, 3}));
  EXPECT_EQ(booked_under(net.lazy.scale), "lazy");
}

TEST(ModulePath, OfAParameterMadeInAScopeIsItsModulesFromAdoptionOn) {
  Open outer, inner;
  nn::Parameter w;
  {
    const memory::Scope scope("initial values");
    w = inner.register_parameter("w", {2});
  }
  EXPECT_EQ(booked_under(w), "(root) Open");
  outer.register_module("inner", inner);
  EXPECT_EQ(booked_under(w), "inner");
}

TEST(ModulePath, OfAModuleMadeInAScopeIsItsParents) {
  Open outer;
  const auto made = [] {
    const memory::Scope scope("encoder");
    return std::make_shared<nn::Sequential>(nn::Linear(3, 3));
  }();
  EXPECT_EQ(booked_under(made->parameters()[0]), "encoder.0 Linear");
  outer.register_module("net", made);
  EXPECT_EQ(booked_under(made->parameters()[0]), "net.0 Linear");
  {
    const memory::Scope scope("later");
    made->push_back(nn::Linear(3, 3));
  }
  EXPECT_EQ(booked_under(made->parameters()[2]), "net.1 Linear");
}

TEST(ModulePath, OfAGradientChangesWithItsParameters) {
  const auto fc = std::make_shared<nn::Linear>(3, 4);
  sum((*fc)(randn({2, 3}))).backward();
  EXPECT_EQ(booked_under(fc->weight.grad()), "(root) Linear");
  Open outer;
  outer.register_module("fc", fc);
  EXPECT_EQ(booked_under(fc->weight.grad()), "fc");
  EXPECT_EQ(fc->weight.grad().storage().role(), Role::gradient);
}

TEST(ModulePath, OfALateParameterIsThatOfAllThatIsMadeForIt) {
  Nested net;
  const nn::Parameter late = net.inner.register_parameter("late", randn({3, 4}));
  optim::SGD sgd(net.outer.parameters(), {.lr = 0.1, .momentum = 0.9});
  const std::string path = "list.0 Open";
  const std::size_t gradients = held(path, Role::gradient), states = held(path, Role::optimizer_state),
                    copies = held(path, Role::autocast_copy);
  {
    const Autocast autocast(DType::bf16);
    sum(linear(randn({2, 4}), late)).backward();
    EXPECT_GT(held(path, Role::autocast_copy), copies);
  }
  sgd.step();
  EXPECT_GT(held(path, Role::gradient), gradients);
  EXPECT_GT(held(path, Role::optimizer_state), states);
}

}  // namespace
}  // namespace bytetape
