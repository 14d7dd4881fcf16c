#include "bytetape/optim/optimizer.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/stats.h"

#include <gmock/gmock.h>

#include <functional>
#include <memory>

#include "bytetape/autograd/node.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/parallel.h"
#include "bytetape/optim/adam.h"
#include "bytetape/optim/rmsprop.h"
#include "bytetape/optim/sgd.h"
#include "tests/support/expect.h"

namespace bytetape::optim {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Make = std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)>;

struct Kind {
  const char* name;
  Make make;
  int states;  // tensors a parameter
};

const Kind kinds[] = {
    {"sgd", [](auto p) { return std::make_unique<SGD>(p, SGDOptions{.lr = 0.1, .momentum = 0.9}); }, 1},
    {"adam", [](auto p) { return std::make_unique<Adam>(p, AdamOptions{.lr = 0.1}); }, 2},
    {"adamw", [](auto p) { return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.1}); }, 2},
    {"rmsprop",
     [](auto p) { return std::make_unique<RMSprop>(p, RMSpropOptions{.lr = 0.1, .momentum = 0.9, .centered = true}); },
     3},
};

class EveryOptimizer : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(, EveryOptimizer, testing::ValuesIn(kinds), [](const auto& i) { return i.param.name; });

Tensor leaf(const Shape& shape, DType dtype = DType::f32) { return randn(shape, dtype).set_requires_grad(); }

TEST_P(EveryOptimizer, SkipsParametersWithoutGradient) {
  Tensor a = leaf({4}), b = leaf({4});
  const auto before_a = a.to_vector<float>(), before_b = b.to_vector<float>();
  const auto version_b = b.storage().version();
  const auto optimizer = GetParam().make({a, b});
  a.set_grad(randn({4}));
  optimizer->step();
  EXPECT_NE(a.to_vector<float>(), before_a);
  EXPECT_EQ(b.to_vector<float>(), before_b);
  EXPECT_EQ(b.storage().version(), version_b);
}

TEST_P(EveryOptimizer, ZeroGradDropsGradients) {
  Tensor a = leaf({4});
  const auto optimizer = GetParam().make({a});
  a.set_grad(randn({4}));
  optimizer->zero_grad();
  EXPECT_FALSE(a.grad().defined());
}

TEST_P(EveryOptimizer, BooksItsStateUnderTheParametersModule) {
  const memory::NameId module = memory::intern(std::string("net.") + GetParam().name);
  Tensor p;
  {
    const memory::ModuleScope scope(module);
    p = leaf({1000});
  }
  p.set_grad(randn({1000}));
  const auto optimizer = GetParam().make({p});
  const auto held = [&] {
    const auto table = memory::snapshot(Device::cpu()).by_module;
    return table[module][static_cast<std::size_t>(memory::Role::optimizer_state)];
  };
  EXPECT_EQ(held(), 0u);
  optimizer->step();
  EXPECT_EQ(held(), static_cast<std::size_t>(GetParam().states) * 4096);
  optimizer->step();
  EXPECT_EQ(held(), static_cast<std::size_t>(GetParam().states) * 4096);
}

TEST_P(EveryOptimizer, TellsTheTapeOfItsWrites) {
  Tensor p = leaf({3});
  const auto optimizer = GetParam().make({p});
  const Tensor y = sum(p * p);
  p.set_grad(randn({3}));
  optimizer->step();
  EXPECT_THAT([&] { y.backward(); },
              ThrowsMessage<AutogradError>(HasSubstr(std::string("overwritten by '") + GetParam().name + "'")));
  EXPECT_TRUE(p.is_leaf());
}

TEST_P(EveryOptimizer, TakesGradientsInAnyLayout) {
  Tensor a = leaf({3, 5}), b = clone(a.detach());
  const Tensor g = randn({5, 3});
  a.set_grad(transpose(g, 0, 1));
  b.set_grad(contiguous(transpose(g, 0, 1)));
  GetParam().make({a})->step();
  GetParam().make({b})->step();
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
}

TEST_P(EveryOptimizer, IsBitwiseTheSameForAnyThreadCount) {
  const int threads = num_threads();
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    std::vector<std::vector<double>> results;
    for (int count : {1, 2, 3, 5}) {
      set_num_threads(count);
      manual_seed(7);
      std::vector<Tensor> parameters{leaf({100003}, dtype), leaf({17}, dtype), leaf({211, 307}, dtype)};
      const auto optimizer = GetParam().make(parameters);
      for (int step = 0; step < 3; ++step) {
        for (Tensor& p : parameters) p.set_grad(randn(p.shape(), dtype));
        optimizer->step();
      }
      std::vector<double> all;
      for (const Tensor& p : parameters) {
        const auto values = p.to_vector<double>();
        all.insert(all.end(), values.begin(), values.end());
      }
      results.push_back(all);
    }
    for (const auto& r : results) EXPECT_TRUE(r == results[0]) << dtype;
  }
  set_num_threads(threads);
}

// Gradients of parts of a batch add up: a step of all of them, where each part's loss is divided by how many there are.
TEST_P(EveryOptimizer, TakesGradientsThatAddedUp) {
  const Tensor start = randn({6, 4}, DType::f64), x = randn({8, 6}, DType::f64), y = randn({8, 4}, DType::f64);
  Tensor whole = clone(start).set_requires_grad(), parts = clone(start).set_requires_grad();
  const auto by_whole = GetParam().make({whole}), by_parts = GetParam().make({parts});
  const auto loss = [&](const Tensor& w, std::int64_t at, std::int64_t n) {
    const Tensor d = matmul(narrow(x, 0, at, n), w) - narrow(y, 0, at, n);
    return mean(d * d);
  };
  for (int step = 0; step < 3; ++step) {
    by_whole->zero_grad(), by_parts->zero_grad();
    loss(whole, 0, 8).backward();
    for (int k = 0; k < 4; ++k) (loss(parts, 2 * k, 2) / 4).backward();
    by_whole->step(), by_parts->step();
    EXPECT_TRUE(test::all_close(parts.detach(), whole.detach(), 1e-12, 1e-12)) << "step " << step;
  }
}

TEST_P(EveryOptimizer, CanRepeatAStepThatRanOutOfMemory) {
  Tensor small = leaf({10}), large = leaf({5 << 20}), twin = clone(small.detach());
  const Tensor g = randn({10});
  small.set_grad(g);
  twin.set_grad(g);
  large.set_grad(large.detach());
  const auto optimizer = GetParam().make({small, large});
  memory::empty_cache(Device::cpu());
  std::vector<Tensor> fillers;  // of free pieces of segments in use, which the state would fit into
  for (const std::size_t before = memory::stats(Device::cpu()).reserved.current;
       memory::stats(Device::cpu()).reserved.current == before;)
    fillers.push_back(empty_like(large));
  const std::size_t limit = memory::snapshot(Device::cpu()).limit;
  memory::set_limit(memory::stats(Device::cpu()).reserved.current + (4 << 20), Device::cpu());
  const auto before = small.to_vector<float>();
  EXPECT_THROW(optimizer->step(), OutOfMemory);
  EXPECT_EQ(small.to_vector<float>(), before);
  memory::set_limit(limit, Device::cpu());
  optimizer->step();
  GetParam().make({twin})->step();
  EXPECT_EQ(small.to_vector<float>(), twin.to_vector<float>());
}

TEST_P(EveryOptimizer, MakesTheSameStateOnMeta) {
  const auto meta = memory::stats(Device::meta()).by_role;
  Tensor p = empty({1000}, DType::f32, Device::meta()).set_requires_grad();
  p.set_grad(empty({1000}, DType::f32, Device::meta()));
  const auto optimizer = GetParam().make({p});
  optimizer->step();
  const auto state = static_cast<std::size_t>(memory::Role::optimizer_state);
  EXPECT_EQ(memory::stats(Device::meta()).by_role[state].current - meta[state].current,
            static_cast<std::size_t>(GetParam().states) * 4096);
}

TEST_P(EveryOptimizer, RefusesAParameterThatWasMovedSinceItsStateWasMade) {
  Tensor p = leaf({4});
  p.set_grad(randn({4}));
  const auto optimizer = GetParam().make({p});
  optimizer->step();
  p.set_grad({});
  p.set_data(empty({4}, DType::f32, Device::meta()));
  p.set_grad(empty({4}, DType::f32, Device::meta()));
  EXPECT_THAT([&] { optimizer->step(); }, ThrowsMessage<DeviceError>(HasSubstr("after moving the module")));
}

TEST_P(EveryOptimizer, RefusesAParameterThatWasChangedSinceItsStateWasMade) {
  const auto refused = [](auto error, const std::function<Tensor(const Tensor&)>& change, const char* words) {
    Tensor p = leaf({2, 3, 2, 2});
    p.set_grad(randn(p.shape()));
    const auto optimizer = GetParam().make({p});
    optimizer->step();
    p.set_grad({});
    p.set_data(change(p.detach()));
    p.set_grad(zeros_like(p.detach()));
    const auto before = p.to_vector<double>();
    EXPECT_THAT([&] { optimizer->step(); }, ThrowsMessage<decltype(error)>(HasSubstr(words)));
    EXPECT_EQ(p.to_vector<double>(), before);
  };
  refused(
      ShapeError(""), [](const Tensor& p) { return channels_last(p); }, "layout since its state");
  refused(
      DTypeError(""), [](const Tensor& p) { return to(p, DType::f64); }, "changed its dtype since its state");
}

TEST_P(EveryOptimizer, RefusesAGradientThatIsNotLikeItsParameter) {
  Tensor a = leaf({4}), b = leaf({4});
  const auto before = a.to_vector<float>();
  const auto optimizer = GetParam().make({a, b});
  a.set_grad(randn({4}));
  b.set_grad(randn({4}));
  b.set_data(randn({4}, DType::f64));
  EXPECT_THAT([&] { optimizer->step(); },
              ThrowsMessage<DTypeError>(HasSubstr("the gradient of parameter 1, f32(4,) on cpu, must have the dtype of "
                                                  "the parameter, f64(4,) on cpu")));
  b.set_data(empty({4}, DType::f32, Device::meta()));
  EXPECT_THAT([&] { optimizer->step(); }, ThrowsMessage<DeviceError>(HasSubstr("must be where the parameter is")));
  assign_grad(b, randn({2, 2}));  // set_grad() refuses it
  b.set_data(randn({4}));
  EXPECT_THAT([&] { optimizer->step(); }, ThrowsMessage<ShapeError>(HasSubstr("must have the shape of the parameter")));
  EXPECT_EQ(a.to_vector<float>(), before);
}

TEST_P(EveryOptimizer, RefusesAParameterThatAnAssignmentReplaced) {
  Tensor p = leaf({4}), other = leaf({4});
  p.set_grad(randn({4}));
  const auto before = p.to_vector<float>();
  const auto optimizer = GetParam().make({p, other});
  other.impl()->replaced = true;  // as the modules do
  EXPECT_THAT([&] { optimizer->step(); },
              ThrowsMessage<ValueError>(HasSubstr("parameter 1, f32(4,) on cpu, was replaced in its module")));
  EXPECT_EQ(p.to_vector<float>(), before);
}

TEST(Optimizer, LeavesOutParametersWithoutElements) {
  Tensor none = zeros({0, 3}).set_requires_grad(), some = leaf({2});
  none.set_grad(zeros({0, 3}));
  some.set_grad(randn({2}));
  Adam adam({none, some});
  adam.step();
  const StateDict state = adam.state_dict();
  EXPECT_FALSE(state.numbers.contains("state.0.step"));
  EXPECT_EQ(state.integer("state.1.step"), 1);
}

TEST(Optimizer, ChecksItsParameters) {
  const auto make = [](std::vector<Tensor> p) { return [=] { SGD sgd(p); }; };
  const Tensor p = leaf({2, 3});
  EXPECT_THAT(make({}), ThrowsMessage<ValueError>(HasSubstr("sgd: expected at least one parameter")));
  EXPECT_THAT(make({p, {}}), ThrowsMessage<ValueError>(HasSubstr("parameter 1 is an undefined tensor")));
  EXPECT_THAT(make({p, p}), ThrowsMessage<ValueError>(HasSubstr(
                                "sgd: parameter 1, f32(2, 3) on cpu, appears twice: it is parameter 0 too; pass a")));
  const Tensor whole = randn({6}), part = narrow(whole, 0, 0, 3), other = narrow(whole, 0, 3, 3);
  EXPECT_THAT(make({whole, other}), ThrowsMessage<ValueError>(HasSubstr("share memory")));
  EXPECT_NO_THROW(make({part, other})());
  EXPECT_NO_THROW(make({whole, narrow(whole, 0, 3, 0)})()) << "the second one has no elements";
  const Tensor named = leaf({2});
  named.storage().set_role(memory::Role::parameter, memory::intern("net.fc"));
  EXPECT_THAT(make({named, named}),
              ThrowsMessage<ValueError>(HasSubstr("parameter 1, f32(2,) on cpu of module 'net.fc', appears twice")));
  EXPECT_THAT(make({p * 2}), ThrowsMessage<ValueError>(HasSubstr("must be a leaf")));
  EXPECT_THAT(make({ones({2}, DType::i64)}), ThrowsMessage<DTypeError>(HasSubstr("must be floating")));
  EXPECT_THAT(make({narrow(randn({2, 3}), 1, 0, 2)}), ThrowsMessage<ValueError>(HasSubstr("gaps")));
  EXPECT_THAT(make({p, empty({2}, DType::f32, Device::meta())}), ThrowsMessage<DeviceError>(HasSubstr("meta")));
}

}  // namespace
}  // namespace bytetape::optim
