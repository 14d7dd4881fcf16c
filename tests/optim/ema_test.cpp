#include "bytetape/optim/ema.h"
#include "bytetape/core/memory/stats.h"

#include <gmock/gmock.h>

#include <memory>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/optim/sgd.h"
#include "tests/optim/faulty_device.h"
#include "tests/optim/golden.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::optim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Values = std::vector<double>;

Tensor leaf(const Values& values, Device device = Device::cpu()) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())}, device).set_requires_grad();
}
/// Gives p other values.
void set(const Tensor& p, const Values& values) {
  const NoGrad no_grad;
  copy_(p, from_vector(values));
}

TEST(EMA, EqualsPyTorch) {
  golden::run_both("sgd_ema", [](const std::vector<Tensor>& x) -> golden::Training {
    const auto ema = std::make_shared<EMA>(x, EMAOptions{.decay = 0.95});
    return {.optimizer = std::make_unique<SGD>(x, SGDOptions{.lr = 0.02, .momentum = 0.9}),
            .after_step = [ema] { ema->update(); },
            .compared = ema->averages()};
  });
}

TEST(EMA, BeginsWithItsFirstUpdate) {
  const Tensor p = leaf({1, 2});
  EMA ema({p}, {.decay = 0.75});
  set(p, {4, 8});
  ema.update();
  EXPECT_THAT(ema.averages()[0].to_vector<double>(), ElementsAre(4, 8));
  set(p, {0, 16});
  ema.update();
  EXPECT_THAT(ema.averages()[0].to_vector<double>(), ElementsAre(3, 10));
  EXPECT_THAT(p.detach().to_vector<double>(), ElementsAre(0, 16));
}

TEST(EMA, SwapsWithTheParameters) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor a = test::random_tensor({3, 5, 2, 2}, dtype),
                 b = channels_last(test::random_tensor({2, 3, 4, 5}, dtype));
    const Tensor p = clone(a).set_requires_grad(), q = clone(b).set_requires_grad();
    EMA ema({p, q});
    ema.update();
    for (const Tensor& x : {p, q}) set(x.detach(), {7});
    const auto version = p.storage().version();
    ema.swap();
    EXPECT_GT(p.storage().version(), version);
    EXPECT_EQ(p.detach().to_vector<double>(), a.to_vector<double>());
    EXPECT_EQ(q.detach().to_vector<double>(), b.to_vector<double>());
    EXPECT_EQ(ema.averages()[1].to_vector<double>(), Values(b.numel(), 7));
    ema.swap();
    EXPECT_EQ(q.detach().to_vector<double>(), Values(b.numel(), 7));
    EXPECT_EQ(ema.averages()[0].to_vector<double>(), a.to_vector<double>());
  }
}

TEST(EMA, SwapsWithRoomForTheLargest) {
  const Tensor small = leaf({1}), large = leaf(Values(5000, 2));
  for (const auto& parameters : {std::vector{small, large}, {large, small}}) {
    EMA ema(parameters);
    set(large, {3});
    memory::reset_peaks(Device::cpu());
    ema.swap();
    EXPECT_GE(memory::stats(Device::cpu()).by_role[static_cast<std::size_t>(memory::Role::workspace)].peak, 40000u);
    EXPECT_EQ(large.detach().to_vector<double>(), Values(5000, 2));
  }
}

TEST(EMA, CopiesToAnotherModel) {
  const Tensor p = leaf({1, 2}), other = leaf({5, 6}), single = to(other.detach(), DType::f32).set_requires_grad();
  EMA ema({p});
  ema.copy_to({other});
  EXPECT_THAT(other.detach().to_vector<double>(), ElementsAre(1, 2));
  ema.copy_to({single});
  EXPECT_THAT(single.detach().to_vector<double>(), ElementsAre(1, 2));
  EXPECT_THAT([&] { ema.copy_to({}); }, ThrowsMessage<ValueError>(HasSubstr("ema: expected 1 tensors")));
  EXPECT_THAT(
      [&] {
        ema.copy_to({leaf({1, 2, 3})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("does not fit the average")));
}

TEST(EMA, GoesOnFromItsState) {
  const auto values = [](int step) { return test::random_tensor({4}).to_vector<double>()[step % 4]; };
  const Tensor p = leaf({1, 2, 3}), q = leaf({0, 0, 0});
  EMA whole({p}, {.decay = 0.9}), resumed({q}, {.decay = 0.9});
  for (int step = 0; step < 10; ++step) {
    if (step == 5) resumed.load_state_dict(whole.state_dict());
    const Values next{values(step), values(step + 1), values(step + 2)};
    set(p, next), set(q, next);
    whole.update();
    if (step >= 5) resumed.update();
  }
  EXPECT_EQ(resumed.averages()[0].to_vector<double>(), whole.averages()[0].to_vector<double>());
}

TEST(EMA, RefusesAStateThatDoesNotFit) {
  EMA ema({leaf({1, 2})}), longer({leaf({1, 2, 3})}), more({leaf({1, 2}), leaf({3})});
  EXPECT_THAT([&] { ema.load_state_dict(longer.state_dict()); }, ThrowsMessage<ShapeError>(HasSubstr("tensor 0")));
  EXPECT_THAT([&] { ema.load_state_dict(more.state_dict()); },
              ThrowsMessage<ValueError>(HasSubstr("unexpected tensor 'averages.1'")));
  EXPECT_THAT(ema.averages()[0].to_vector<double>(), ElementsAre(1, 2));
}

TEST(EMA, CopiesOnlyToWhatHoldsIt) {
  const EMA ema({leaf({1, 2})});
  const Tensor one = zeros({1});
  EXPECT_THAT([&] { ema.copy_to({expand(one, {2})}); }, ThrowsMessage<ValueError>(HasSubstr("share memory")));
  EXPECT_THAT([&] { ema.copy_to({zeros({2}, DType::i64)}); }, ThrowsMessage<DTypeError>(HasSubstr("i64")));
  EXPECT_EQ(one.item<float>(), 0);
}

TEST(EMA, ChecksItsParameters) {
  EXPECT_THAT([] { EMA({}); }, ThrowsMessage<ValueError>(HasSubstr("ema: expected at least one parameter")));
  EXPECT_THAT([] { EMA({leaf({1})}, {.decay = 1.5}); },
              ThrowsMessage<ValueError>(HasSubstr("decay must be from 0 to 1")));
  EXPECT_THAT([] { EMA({leaf({1})}, {.use_buffers = true}); },
              ThrowsMessage<ValueError>(HasSubstr("ema: use_buffers needs the model")));
  const Tensor p = leaf({1});
  EXPECT_THAT([&] { EMA({p, p}); }, ThrowsMessage<ValueError>(HasSubstr("appears twice")));
  EMA ema({p});
  p.impl()->replaced = true;  // as the modules do
  EXPECT_THAT([&] { ema.update(); }, ThrowsMessage<ValueError>(HasSubstr("was replaced in its module")));
}

TEST(EMA, TakesADecayFrom0To1) {
  const Tensor p = leaf({1});
  for (const double outside : {-0.1, 1.1})
    EXPECT_THAT([&] { EMA({p}, {.decay = outside}); }, ThrowsMessage<ValueError>(HasSubstr("from 0 to 1")));
  for (const double end : {0.0, 1.0}) EMA({p}, {.decay = end});
}

TEST(EMA, IsBookedAsOptimizerState) {
  for (const Device device : {Device::cpu(), Device::meta()}) {
    const auto& roles = [&] { return memory::stats(device).by_role; };
    const auto role = static_cast<std::size_t>(memory::Role::optimizer_state);
    const std::size_t before = roles()[role].current;
    const EMA ema({empty({1000}, DType::f32, device)});
    EXPECT_EQ(roles()[role].current - before, 4096u);
  }
}

TEST(EMA, LeavesOutWhatAFaultHasSkipped) {
  FaultyDevice faulty;
  const Tensor p = leaf({1, 2}, FaultyDevice::device);
  EMA ema({p}, {.decay = 0.5});
  ema.update();
  set(p, {3, 4});
  faulty.leave_fault();
  ema.update();
  EXPECT_THAT(ema.averages()[0].to_vector<double>(), ElementsAre(1, 2));
  faulty.throw_fault();
  ema.update();
  EXPECT_THAT(ema.averages()[0].to_vector<double>(), ElementsAre(2, 3));
}

TEST(EMA, TellsTheTapeOfWhatItSwaps) {
  const Tensor p = leaf({1, 2}), v = leaf({3, 4});
  EMA ema({p});
  const Tensor of_average = sum(v * ema.averages()[0]), of_parameter = sum(v * p);
  ema.swap();
  EXPECT_THROW(of_average.backward(), AutogradError);
  EXPECT_THROW(of_parameter.backward(), AutogradError);
}

TEST(EMA, TakesAStateWithoutDataOnAMetaDevice) {
  const auto meta_leaf = [] { return empty({2}, DType::f64, Device::meta()).set_requires_grad(); };
  EMA ema({meta_leaf()}), other({meta_leaf()});
  ema.update();
  other.load_state_dict(ema.state_dict());
  EXPECT_EQ(other.state_dict().integer("has_begun"), 1);
  other.load_state_dict(EMA({leaf({1, 2})}).state_dict());
  EXPECT_EQ(other.state_dict().integer("has_begun"), 0);
}

TEST(EMA, TakesNoStateWithoutData) {
  EMA ema({leaf({1, 2})});
  const Values before = ema.averages()[0].to_vector<double>();
  StateDict state = ema.state_dict();
  state.tensors[0].second = empty({2}, DType::f64, Device::meta());
  EXPECT_THAT([&] { ema.load_state_dict(state); }, ThrowsMessage<DeviceError>(HasSubstr("holds no data")));
  state.tensors[0].second = {};
  EXPECT_THAT([&] { ema.load_state_dict(state); },
              ThrowsMessage<ValueError>(HasSubstr("a tensor to use as an average")));
  EXPECT_EQ(ema.averages()[0].to_vector<double>(), before);
}

}  // namespace
}  // namespace bytetape::optim
