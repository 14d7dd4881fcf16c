// The methods of Module that replace what is in its tensors.
#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Net : nn::Module {
  nn::Linear fc{4, 5};
  nn::BatchNorm2d norm{3};
  Net() {
    register_module("fc", fc);
    register_module("norm", norm);
  }
};

TEST(State, RoundTrip) {
  Net a, b;
  b.load_state_dict(a.state_dict());
  const auto left = a.state_dict(), right = b.state_dict();
  for (std::size_t i = 0; i < left.size(); ++i)
    EXPECT_EQ(left[i].second.to_vector<double>(), right[i].second.to_vector<double>()) << left[i].first;
  EXPECT_FALSE(left[0].second.is_same(right[0].second));
}

TEST(State, LoadingNamesEveryMissingAndUnexpectedKeyAndChangesNothing) {
  Net net;
  auto state = net.state_dict();
  for (auto& [name, x] : state) x = is_floating(x.dtype()) ? randn(x.shape()) : x;
  const auto before = net.fc.weight.to_vector<float>();
  state.pop_back();
  state.emplace_back("norm.extra", randn({3}));
  EXPECT_THAT([&] { net.load_state_dict(state); },
              ThrowsMessage<ValueError>(AllOf(HasSubstr("norm.num_batches_tracked"), HasSubstr("norm.extra"))));
  EXPECT_EQ(net.fc.weight.to_vector<float>(), before);
  net.load_state_dict(state, false);
  EXPECT_NE(net.fc.weight.to_vector<float>(), before);
}

TEST(State, LoadingRefusesRepeatedKeys) {
  nn::Linear fc(2, 1);
  const auto before = fc.weight.to_vector<float>();
  const nn::NamedTensors state{{"weight", ones({1, 2})}, {"bias", ones({1})}, {"weight", zeros({1, 2})}};
  for (bool strict : {true, false})
    EXPECT_THROWS_SAYING(fc.load_state_dict(state, strict), ValueError, "repeated keys: [weight]");
  EXPECT_EQ(fc.weight.to_vector<float>(), before);
}

TEST(State, LoadingRefusesAWrongShape) {
  Net net;
  auto state = net.state_dict();
  state[0].second = randn({5, 5});
  EXPECT_THAT([&] { net.load_state_dict(state); },
              ThrowsMessage<ShapeError>(
                  HasSubstr("load_state_dict: 'fc.weight' has shape (5, 5) in the state, but (5, 4) in the model")));
  state[0].second = {};
  EXPECT_THROWS_SAYING(net.load_state_dict(state), ValueError, "'fc.weight' is an undefined tensor in the state");
}

TEST(State, LoadingRefusesABufferThatCannotBeWrittenAndChangesNothing) {
  struct Masked : nn::Module {
    nn::Linear fc{2, 2};
    nn::Buffer mask = register_buffer("zmask", expand(ones({1}), {4}));  // behind what would be written
    Masked() { register_module("fc", fc); }
  } net;
  const auto before = net.fc.weight.to_vector<float>();
  const nn::NamedTensors state{{"zmask", ones({4})}, {"fc.weight", ones({2, 2})}, {"fc.bias", ones({2})}};
  EXPECT_THROWS_SAYING(net.load_state_dict(state), ValueError,
                       "load_state_dict: 'zmask', f32(4,) on cpu, has elements that share memory");
  EXPECT_EQ(net.fc.weight.to_vector<float>(), before);
}

TEST(State, LoadingRefusesAStateWithoutDataUnlessTheModelHasNone) {
  nn::Linear fc(2, 3), none(2, 3), other(2, 3);
  const auto before = fc.weight.to_vector<float>();
  none.to(Device::meta());
  other.to(Device::meta());
  nn::NamedTensors state = nn::Linear(2, 3).state_dict();
  state[1].second = none.bias;  // behind one that would be written
  EXPECT_THROWS_SAYING(fc.load_state_dict(state), DeviceError,
                       "'bias' is f32(3,) on meta in the state, which holds no");
  EXPECT_EQ(fc.weight.to_vector<float>(), before);
  EXPECT_NO_THROW(other.load_state_dict(none.state_dict()));
}

TEST(State, ABufferThatIsNotPersistentIsMovedButNotSaved) {
  struct Net : nn::Module {
    nn::Buffer table = register_buffer("table", ones(3), /*persistent=*/false), seen = register_buffer("seen", ones(2));
  } net;
  EXPECT_EQ(net.state_dict().size(), 1u);
  EXPECT_EQ(net.state_dict()[0].first, "seen");
  EXPECT_EQ(net.named_buffers().size(), 2u);
  EXPECT_TRUE(net.get_buffer("table").is_same(net.table));
  net.load_state_dict({{"seen", zeros(2)}});
  EXPECT_EQ(net.table.to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_THROWS_SAYING(net.load_state_dict({{"seen", zeros(2)}, {"table", zeros(3)}}), ValueError, "table");
  net.to(DType::f64);
  EXPECT_EQ(net.table.dtype(), DType::f64);
  EXPECT_EQ(net.table.storage().role(), memory::Role::parameter) << "as every buffer";
  EXPECT_TRUE(net.parameters().empty());
}

TEST(State, ToKeepsTheIdentityOfParameters) {
  Net net;
  const auto parameters = net.parameters();
  sum(net.fc(randn({2, 4}))).backward();
  net.to(DType::f64);
  EXPECT_TRUE(net.parameters()[0].is_same(parameters[0]));
  EXPECT_EQ(parameters[0].dtype(), DType::f64);
  EXPECT_EQ(parameters[0].grad().dtype(), DType::f64);
  EXPECT_EQ(parameters[0].storage().role(), memory::Role::parameter);
  EXPECT_EQ(memory::name_of(parameters[0].storage().module()), "fc");
  EXPECT_EQ(net.norm.num_batches_tracked.dtype(), DType::i64);
  net.to(Device::meta());
  EXPECT_TRUE(parameters[0].device().is_meta);
}

TEST(State, ToDoesNotWaitForAnEarlierGraph) {
  struct Tied : nn::Module {
    nn::Linear a{3, 3}, b{3, 3};
    Tied() {
      register_module("a", a), register_module("b", b);
      b.weight = a.weight;
    }
    Tensor forward(const Tensor& x) override { return b(a(x)); }
  } net;
  int calls = 0;
  net.a.weight.register_hook([&](const Tensor& g) { return ++calls, g; });
  const Tensor kept = sum(net(randn({4, 3}))), x = randn({4, 3}, DType::f64);
  net.to(DType::f64);
  sum(net(x)).backward();
  const auto found = net.a.weight.grad().to_vector<double>();
  nn::clone(net).to(DType::f32);
  net.zero_grad();
  sum(net(x)).backward();
  EXPECT_EQ(net.b.weight.grad().to_vector<double>(), found);
  EXPECT_EQ(calls, 2);
  EXPECT_THROWS_SAYING(kept.backward(), AutogradError, "was moved or converted since");
  EXPECT_EQ(net.a.weight.grad().to_vector<double>(), found);
  net.to(Device::meta());
  sum(net(empty({4, 3}, DType::f64, Device::meta()))).backward();
  EXPECT_EQ(describe(net.a.weight.grad()), "f64(3, 3) on meta");
}

TEST(State, ToIsNotHiddenFromMembers) {
  struct Casts : nn::Module {
    Tensor forward(const Tensor& x) override { return to(to(x, DType::f64), Device::meta()); }
  };
  const Tensor y = Casts()(ones({2}));
  EXPECT_EQ(describe(y), "f64(2,) on meta");
}

}  // namespace
}  // namespace bytetape
