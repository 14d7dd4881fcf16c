// Steps that cannot be captured, and what they leave.
#include <functional>
#include <optional>

#include "bytetape/bytetape.h"
#include "tests/autograd/capture_device.h"

namespace bytetape {
namespace {

using test::Capture;
using test::random_tensor;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST_F(Capture, SaysWhatCannotBeCaptured) {
  const Tensor x = random_there({3}), host = random_tensor({3}, DType::f32);
  Generator g;
  const auto third = [](const auto& f) {
    auto step = capture(f);
    for (int i = 0; i < 3; ++i) step();
  };
  EXPECT_THAT([&] { third([&] { sum(x).item(); }); },
              ThrowsMessage<CaptureError>(AllOf(HasSubstr("item"), HasSubstr("waits for the device"))));
  EXPECT_THAT([&] { third([&] { x.to_vector<float>(); }); },
              ThrowsMessage<CaptureError>(AllOf(HasSubstr("to_vector"), HasSubstr("memory of cpu"))));
  EXPECT_THAT([&] { third([&] { neg(x), to(host, gpu); }); },
              ThrowsMessage<CaptureError>(AllOf(HasSubstr("to"), HasSubstr("memory of cpu"))));
  EXPECT_THAT([&] { third([&] { neg(x), exp(host); }); },
              ThrowsMessage<CaptureError>(AllOf(HasSubstr("exp"), HasSubstr("memory of cpu"))));
  EXPECT_THAT([&] { third([&] { neg(x), synchronize(gpu); }); },
              ThrowsMessage<CaptureError>(HasSubstr("waits for the device")));
  EXPECT_THAT([&] { third([&] { neg(x), g.manual_seed(3); }); }, ThrowsMessage<CaptureError>(HasSubstr("generator")));
  auto of_an_input = capture([](const Tensor& t) { return sum(t); });
  Tensor leaf = random_there({3}).set_requires_grad();
  of_an_input(leaf), of_an_input(leaf);
  EXPECT_THAT([&] { of_an_input(leaf); }, ThrowsMessage<CaptureError>(HasSubstr("requires grad")));
}

TEST_F(Capture, RefusesAnInputThatIsUndefined) {
  const Tensor x = random_there({4});
  auto step = capture([](const Tensor& t, const Tensor& mask) { return mask.defined() ? t * mask : t + 1; });
  for (int i = 0; i < 2; ++i) step(x, Tensor());
  EXPECT_THAT([&] { step(x, Tensor()); }, ThrowsMessage<ValueError>(HasSubstr("an input of the step")));
  for (int i = 0; i < 3; ++i) step(x, x);
  EXPECT_TRUE(step.is_captured());
}

TEST_F(Capture, TakesNoInputThatRequiresGradLater) {
  auto step = capture([](const Tensor& x) { return sum(x); });
  for (int i = 0; i < 3; ++i) step(random_there({3}));
  EXPECT_THROW(step(random_there({3}).set_requires_grad()), CaptureError);
}

TEST_F(Capture, LeavesTheHostAsItWasWhereItFails) {
  Generator g(9);
  Tensor w = random_there({3}).set_requires_grad();
  bool looks = true;
  auto step = capture([&] {
    w.set_grad({});
    const Tensor loss = sum(w * rand({3}, DType::f32, gpu, g));
    loss.backward();
    if (looks && g.state().offset > 2) loss.item();
    return loss;
  });
  step(), step();
  const Tensor grad = w.grad();
  const PhiloxState before = g.state();
  EXPECT_THROW(step(), CaptureError);
  EXPECT_EQ(g.state().offset, before.offset);
  EXPECT_TRUE(w.grad().is_same(grad));
  EXPECT_FALSE(step.is_captured());
  looks = false;
  step();
  EXPECT_TRUE(step.is_captured());
}

TEST_F(Capture, NeedsItsOptimizer) {
  const Tensor w = random_there({3}).set_requires_grad();
  std::optional<optim::SGD> sgd(std::in_place, std::vector{w}, optim::SGDOptions{.lr = 0.1});
  auto step = capture([&] {
    sgd->zero_grad();
    sum(w * w).backward();
    sgd->step();
  });
  for (int i = 0; i < 4; ++i) step();
  sgd->param_groups()[0].initial_lr = -1;
  EXPECT_THAT([&] { step(); }, ThrowsMessage<ValueError>(HasSubstr("initial_lr must not be negative")));
  sgd.reset();
  EXPECT_THAT([&] { step(); },
              ThrowsMessage<CaptureError>(HasSubstr("the optimizer of a captured step was destroyed")));
}

TEST_F(Capture, ReadsAndLoadsNoStateOnTheWay) {
  const Tensor w = random_there({3}).set_requires_grad(), x = random_there({3});
  optim::SGD sgd({w}, {.lr = 0.1});
  const StateDict state = sgd.state_dict();
  optim::EMA begun({w}), fresh({w});
  const StateDict average = begun.state_dict();
  const auto fails = [&](const std::function<void()>& f, const char* words) {
    int calls = 0;
    auto step = capture([&] {
      neg(x);
      if (++calls == 3) f();
    });
    step(), step();
    EXPECT_THAT([&] { step(); }, ThrowsMessage<CaptureError>(HasSubstr(words)));
  };
  fails([&] { sgd.state_dict(); }, "reads an optimizer's state");
  fails([&] { sgd.load_state_dict(state); }, "loads an optimizer's state");
  fails([&] { fresh.update(); }, "takes an average's first update");
  fails([&] { begun.load_state_dict(average); }, "loads an average's state");
}

}  // namespace
}  // namespace bytetape
