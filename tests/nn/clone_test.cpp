#include "bytetape/nn/clone.h"

#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "examples/cifar10/models.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

std::vector<std::vector<float>> values(const nn::Module& m) {
  std::vector<std::vector<float>> all;
  for (const auto& [name, x] : m.state_dict()) all.push_back(x.to_vector<float>());
  return all;
}
std::vector<std::string> keys(const nn::Module& m) {
  std::vector<std::string> all;
  for (const auto& [name, x] : m.state_dict()) all.push_back(name);
  return all;
}

struct Net : nn::Module {
  nn::Linear fc1{4, 8}, fc2{8, 4};
  nn::Parameter scale = register_parameter("scale", full({4}, 2));
  nn::Buffer steps = register_buffer("steps", zeros({}, DType::i64), /*persistent=*/false);
  nn::Parameter none = register_parameter("none", Tensor());
  nn::Sequential tail{nn::BatchNorm1d(4), nn::Sequential(nn::Linear(4, 4), nn::ReLU()),
                      [](const Tensor& x) { return x * 2; }};
  Net() {
    register_module("fc1", fc1), register_module("fc2", fc2);
    register_module("tail", tail);
  }
  Tensor forward(const Tensor& x) override { return tail(fc2(relu(fc1(x))) * scale); }
};

TEST(Clone, ComputesTheSameAndSharesNothing) {
  Net net;
  net.tail[0].eval();
  net.fc2.weight.set_requires_grad(false);
  const Tensor x = randn({6, 4});
  Net copy = nn::clone(net);
  EXPECT_EQ(keys(copy), keys(net));
  EXPECT_EQ(values(copy), values(net));
  EXPECT_EQ(copy(x).to_vector<float>(), net(x).to_vector<float>());
  const auto before = values(net);
  const auto ours = net.named_parameters(), theirs = copy.named_parameters();
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NE(&ours[i].second.storage(), &theirs[i].second.storage()) << ours[i].first;
    EXPECT_EQ(ours[i].second.requires_grad(), theirs[i].second.requires_grad()) << ours[i].first;
    EXPECT_TRUE(theirs[i].second.is_leaf());
  }
  const NoGrad no_grad;
  for (const auto& [name, p] : copy.state_dict())
    if (is_floating(p.dtype())) copy_(p, p + 1);
  EXPECT_EQ(values(net), before);
  EXPECT_NE(values(copy), before);
  EXPECT_EQ(copy.get_buffer("steps").dtype(), DType::i64);
  EXPECT_FALSE(copy.none.defined());
}

TEST(Clone, HasItsOwnMembers) {
  Net net;
  Net copy = nn::clone(net);
  EXPECT_TRUE(copy.fc1.weight.is_same(copy.get_parameter("fc1.weight")));
  EXPECT_TRUE(copy.scale.is_same(copy.get_parameter("scale")));
  copy.fc1.weight = zeros({8, 4});  // replaces it in the copy alone
  EXPECT_EQ(sum(copy.get_parameter("fc1.weight")).item<float>(), 0);
  EXPECT_NE(sum(abs(net.get_parameter("fc1.weight"))).item<float>(), 0);
  EXPECT_EQ(&copy.get_submodule("fc1"), &copy.fc1);
  EXPECT_EQ(&copy.get_submodule("tail.1.0"), &copy.tail[1].as<nn::Sequential>()[0]);
  EXPECT_NE(&copy.get_submodule("tail.1.0"), &net.get_submodule("tail.1.0"));
  copy.none = ones({1});
  EXPECT_FALSE(net.none.defined());
  EXPECT_TRUE(copy.get_parameter("none").defined());
}

TEST(Clone, KeepsModes) {
  Net net;
  net.tail[0].eval();
  net.fc1.set_checkpointed();
  net.to(DType::f64);
  Net copy = nn::clone(net);
  EXPECT_TRUE(copy.is_training());
  EXPECT_FALSE(copy.tail[0].is_training());
  EXPECT_TRUE(copy.fc1.is_checkpointed());
  EXPECT_EQ(copy.scale.dtype(), DType::f64);
  copy.eval();
  EXPECT_TRUE(net.is_training());
}

TEST(Clone, TakesTheValuesOfABufferThatAnOpMade) {
  struct Cached : nn::Module {
    nn::Parameter weight = register_parameter("weight", ones({3}));
    nn::Buffer doubled = register_buffer("doubled", zeros({3}));
  } net;
  net.doubled = net.weight * 2;  // on the tape
  const Cached copy = nn::clone(net);
  EXPECT_EQ(copy.doubled.to_vector<float>(), std::vector<float>(3, 2));
  EXPECT_FALSE(copy.doubled.requires_grad());
  EXPECT_TRUE(copy.weight.requires_grad());
}

TEST(Clone, KeepsTiesWithinIt) {
  struct Tied : nn::Module {
    nn::Linear a{4, 4}, b{4, 4, false};
    nn::Sequential list{nn::Linear(4, 4)};
    Tied() {
      register_module("a", a), register_module("b", b), register_module("list", list);
      b.weight = a.weight;
      list[0].as<nn::Linear>().weight = a.weight;
    }
  } net;
  Tied copy = nn::clone(net);
  EXPECT_TRUE(copy.b.weight.is_same(copy.a.weight));
  EXPECT_TRUE(copy.list[0].as<nn::Linear>().weight.is_same(copy.a.weight));
  EXPECT_FALSE(copy.a.weight.is_same(net.a.weight));
  EXPECT_EQ(copy.parameters().size(), net.parameters().size());
  nn::Linear alone = nn::clone(net.a);
  EXPECT_FALSE(alone.weight.is_same(net.a.weight));
}

TEST(Clone, CopiesASharedModuleOnce) {
  const auto shared = std::make_shared<nn::Linear>(3, 3);
  nn::Sequential net(nn::Sequential(shared, nn::ReLU()), shared);
  nn::Sequential copy = nn::clone(net);
  EXPECT_EQ(&copy.get_submodule("0.0"), &copy.get_submodule("1"));
  EXPECT_NE(&copy.get_submodule("0.0"), shared.get());
  EXPECT_EQ(copy.parameters().size(), 2u);
  const Tensor x = randn({2, 3});
  EXPECT_EQ(copy(x).to_vector<float>(), net(x).to_vector<float>());
}

TEST(Clone, MayBeClonedAgain) {
  Net net;
  const nn::Sequential nested(nn::Sequential(nn::Linear(4, 4)), std::make_shared<nn::Linear>(4, 4));
  Net copy = nn::clone(net), second = nn::clone(copy);
  const nn::Sequential twice = nn::clone(nn::clone(nested));
  EXPECT_EQ(keys(second), keys(net));
  EXPECT_EQ(values(second), values(net));
  EXPECT_EQ(values(twice), values(nested));
  EXPECT_FALSE(second.get_parameter("tail.1.0.weight").is_same(copy.get_parameter("tail.1.0.weight")));
  const Tensor x = randn({6, 4});
  EXPECT_EQ(second(x).to_vector<float>(), net(x).to_vector<float>());
}

TEST(Clone, IsARootOnTheLedger) {
  nn::Sequential net;
  net.push_back("body", nn::Sequential(nn::Linear(3, 3)));
  auto& body = net[0].as<nn::Sequential>();
  const auto path = [](const Tensor& x) { return memory::name_of(x.storage().module()); };
  const auto role = [](const Tensor& x) { return x.storage().role(); };
  EXPECT_EQ(path(body.parameters()[0]), "body.0 Linear");
  nn::Sequential copy = nn::clone(body);
  EXPECT_EQ(path(copy.parameters()[0]), "0 Linear");
  EXPECT_EQ(role(copy.parameters()[0]), memory::Role::parameter);
  EXPECT_THROWS_SAYING(copy(randn({2, 4})), ShapeError, "in module '0 Linear'");
  nn::Sequential outer;
  outer.push_back("teacher", std::move(copy));
  EXPECT_EQ(path(outer.parameters()[0]), "teacher.0 Linear");
}

// A module whose first parent is not copied belongs to the first parent that is, wherever below the copy that lies.
TEST(Clone, BooksModulesThatAreSharedWithOthers) {
  const auto shared = std::make_shared<nn::Linear>(4, 4);
  const nn::Sequential elsewhere(shared);
  nn::Sequential net;
  net.push_back("inner", nn::Sequential(shared, nn::ReLU()));
  const auto path = [](const Tensor& x) { return memory::plain_path(x.storage().module()); };
  EXPECT_EQ(path(shared->weight), "0") << "in the other one";
  nn::Sequential copy = nn::clone(net);
  EXPECT_EQ(path(copy.get_parameter("inner.0.weight")), "inner.0");
  EXPECT_EQ(path(shared->weight), "0");
}

TEST(Clone, TrainsByItself) {
  nn::Sequential student = examples::small_net(), teacher = nn::clone(student);
  optim::SGD sgd(student.parameters(), {.lr = 0.1});
  const auto before = values(teacher);
  const Tensor x = randn({2, 3, 32, 32});
  cross_entropy(student(x), randint(0, 10, {2})).backward();
  sgd.step();
  EXPECT_EQ(values(teacher), before);
  for (const Tensor& p : teacher.parameters()) EXPECT_FALSE(p.grad().defined());
  sum(teacher(x)).backward();
  for (const Tensor& p : teacher.parameters()) EXPECT_TRUE(p.grad().defined());
}

TEST(Clone, LeavesOutGradientsAndHooks) {
  nn::Sequential net{nn::Linear(2, 2)};
  int calls = 0;
  net.register_forward_pre_hook([&](const nn::Module&, std::vector<Tensor>&) { ++calls; });
  sum(net(ones({1, 2}))).backward();
  nn::Sequential copy = nn::clone(net);
  EXPECT_FALSE(copy.parameters()[0].grad().defined());
  copy(ones({1, 2}));
  EXPECT_EQ(calls, 1);
}

TEST(Clone, IsTheOnlyWayToCopy) {
  nn::Linear layer(2, 2);
  EXPECT_THROWS_SAYING(nn::Linear copy(layer), ValueError, "copy modules with nn::clone(module)");
  nn::Sequential net{nn::Linear(2, 2)};
  EXPECT_NO_THROW(checkpoint(net, ones({1, 2}).set_requires_grad())) << "it is stored by reference";
  const nn::Parameter handle = layer.weight;
  EXPECT_TRUE(handle.is_same(layer.weight));
}

struct NoCopy : nn::Module {
  nn::Linear fc{2, 2};
  NoCopy() { register_module("fc", fc); }
  NoCopy(NoCopy&&) = default;
};

TEST(Clone, RefusesWhatItCannotCopy) {
  struct Holder : nn::Module {
    std::shared_ptr<nn::Linear> fc = std::make_shared<nn::Linear>(2, 2);
    Holder() { register_module("fc", fc); }
  } holder;
  EXPECT_THROWS_SAYING(nn::clone(holder), ValueError, "'fc', Linear(2, 2), is held by a std::shared_ptr member");
  const std::shared_ptr<nn::Module> base = std::make_shared<nn::Linear>(2, 2);
  nn::Sequential of_base{base}, of_no_copy{NoCopy()};
  EXPECT_THROWS_SAYING(nn::clone(of_base), NotImplemented, "the child '0', Linear(2, 2), cannot be copied");
  EXPECT_THROWS_SAYING(nn::clone(of_no_copy), NotImplemented, "the child '0', NoCopy, cannot be copied");
  struct Derived : nn::Linear {
    Derived() : Linear(2, 2) {}
  } derived;
  const nn::Linear& as_base = derived;
  EXPECT_THROWS_SAYING(nn::clone(as_base), ValueError, "one of its base classes: pass it as its own class");
  nn::Linear outside(2, 2);
  struct Borrower : nn::Module {
    explicit Borrower(nn::Linear& other) { register_module("other", other); }
  } borrower(outside);
  EXPECT_THROWS_SAYING(nn::clone(borrower), ValueError, "Linear(2, 2) is registered as a member, but is not a member");
  EXPECT_NO_THROW(nn::Sequential{nn::Linear(2, 2)}(ones({1, 2})));
}

}  // namespace
}  // namespace bytetape
