// Captured steps against the same steps as they are: bit for bit.
#include "bytetape/autograd/capture.h"

#include <functional>

#include "tests/cuda/gpu.h"
#include "tests/cuda/nets.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/training/scheduled.h"

namespace bytetape::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor images(const Net& net) { return rand(net.batch, DType::f32); }
Tensor classes(const Net& net) { return randint(0, 5, net.batch[0]); }

Tensor step_of(Net& net, const Tensor& x, const Tensor& y) {
  net.optimizer->zero_grad();
  Tensor loss = cross_entropy(net.model(x), y);
  loss.backward();
  net.optimizer->step();
  return loss;
}

/// What eight steps leave: losses, parameters, gradients, buffers, and where the generator stands.
struct Left {
  std::vector<std::vector<float>> values;
  std::uint64_t offset;
  friend bool operator==(const Left&, const Left&) = default;
};

Left train(const std::string& name, bool captured) {
  const DefaultDevice here(gpu);
  manual_seed(3);
  Net net = make_net(name, DType::f32);
  const auto step = [&](const Tensor& x, const Tensor& y) { return step_of(net, x, y); };
  auto captured_step = capture(step);
  Left left;
  for (int i = 0; i < 8; ++i) {
    net.optimizer->set_lr(0.01 / (i + 1));
    const Tensor x = images(net), y = classes(net);
    const Tensor loss = captured ? captured_step(x, y) : step(x, y);
    left.values.push_back(loss.detach().to_vector<float>());
  }
  EXPECT_EQ(captured_step.is_captured(), captured);
  for (const auto& [key, x] : net.model.state_dict()) {
    left.values.push_back(x.detach().to_vector<float>());
    if (x.grad().defined()) left.values.push_back(x.grad().to_vector<float>());
  }
  left.offset = default_generator().state().offset;
  return left;
}

class CudaCapture : public GpuTest, public testing::WithParamInterface<const char*> {};

TEST_P(CudaCapture, IsTheStepBitForBit) {
  const Left eager = train(GetParam(), false);
  EXPECT_EQ(train(GetParam(), true), eager);
  EXPECT_EQ(allocated(gpu), 0u);
}

class CudaCapturedSchedule : public GpuTest {};

TEST_F(CudaCapturedSchedule, IsFollowedBitForBit) {
  const DefaultDevice here(gpu);
  for (const Rule rule : {Rule::sgd, Rule::adam, Rule::rmsprop}) {
    const auto captured = train_scheduled(rule, true);
    EXPECT_EQ(captured.size(), 12u + 8u) << "it was captured";
    EXPECT_EQ(captured, train_scheduled(rule, false));
  }
}

TEST_P(CudaCapture, GoesOnAfterStepsAsTheyAre) {
  const auto losses = [&](bool captured) {
    const DefaultDevice here(gpu);
    manual_seed(4);
    Net net = make_net(GetParam(), DType::f32);
    const auto step = [&](const Tensor& x, const Tensor& y) { return step_of(net, x, y); };
    auto captured_step = capture(step);
    std::vector<float> all;
    for (int i = 0; i < 10; ++i) {
      const Tensor x = images(net), y = classes(net);
      if (i % 3 == 2) {  // the last batch of an epoch is smaller
        const Tensor few = narrow(x, 0, 0, 4), theirs = narrow(y, 0, 0, 4);
        all.push_back((captured ? captured_step(few, theirs) : step(few, theirs)).item<float>());
      }
      all.push_back((captured && i != 6 ? captured_step(x, y) : step(x, y)).item<float>());
    }
    return all;
  };
  EXPECT_EQ(losses(true), losses(false));
}

TEST_P(CudaCapture, HasThePredictedEvents) {
  const auto program = [](Device device) {
    const DefaultDevice here(device);
    Net net = make_net(GetParam(), DType::f32);
    auto step = capture([&](const Tensor& x, const Tensor& y) { return step_of(net, x, y); });
    for (int i = 0; i < 6; ++i) step(images(net), classes(net));
  };
  const auto predicted = record_events(Device::meta(gpu), program);
  EXPECT_EQ(first_difference(record_events(gpu, program), predicted), "");
}

INSTANTIATE_TEST_SUITE_P(Nets, CudaCapture, testing::Values("mlp", "conv"),
                         [](const auto& info) { return std::string(info.param); });

class CudaCaptureFailures : public GpuTest {};

TEST_F(CudaCaptureFailures, SayWhy) {
  const DefaultDevice here(gpu);
  Net net = make_net("mlp", DType::f32);
  auto step = capture([&](const Tensor& x) { return sum(net.model(x)).item<float>() > 0 ? x : neg(x); });
  const Tensor x = images(net);
  step(x), step(x);
  EXPECT_THAT([&] { step(x); }, ThrowsMessage<CaptureError>(AllOf(HasSubstr("item"), HasSubstr("waits"))));
  EXPECT_NO_THROW(sum(x).item());  // the device is as good as before
}

TEST_F(CudaCaptureFailures, LoseNothingWhereMemoryRunsOut) {
  const DefaultDevice here(gpu);
  manual_seed(5);
  Net net = make_net("conv", DType::f32), twin = make_net("conv", DType::f32);
  twin.model.load_state_dict(net.model.state_dict());
  const auto dropping = [](Net& n, Generator& g) {
    return [&](const Tensor& x, const Tensor& y) {
      n.optimizer->zero_grad();
      Tensor loss = cross_entropy(dropout(n.model(x), 0.1, true, g), y);
      loss.backward();
      n.optimizer->step();
      return loss;
    };
  };
  net.model.eval(), twin.model.eval();  // its own dropout draws from the default generator, which both would share
  Generator one(6), other(6);
  auto captured_step = capture(dropping(net, one));
  const auto step = dropping(twin, other);
  const Tensor x = images(net), y = classes(net);
  const std::size_t most = memory::snapshot(gpu).capacity;
  for (int i = 0; i < 6; ++i) {
    if (i == 2) {
      memory::empty_cache(gpu);
      memory::set_limit(memory::stats(gpu).reserved.current + (std::size_t{1} << 20), gpu);
      EXPECT_THROW(captured_step(x, y), OutOfMemory);
      memory::set_limit(most, gpu);
    }
    const Tensor loss = captured_step(x, y);
    EXPECT_EQ(loss.item<float>(), step(x, y).item<float>()) << i;
  }
  EXPECT_TRUE(captured_step.is_captured());
}

TEST_F(CudaCaptureFailures, AreFoundWithTheirOp) {
  const DefaultDevice here(gpu);
  const Tensor logits = randn({4, 3});
  auto step = capture([&](const Tensor& y) { return cross_entropy(logits, y); });
  const Tensor good = randint(0, 3, 4), bad = full({4}, 7, DType::i64);
  for (int i = 0; i < 4; ++i) step(good);
  const Tensor loss = step(bad);
  EXPECT_THAT([&] { loss.item(); }, ThrowsMessage<ValueError>(AllOf(HasSubstr("cross_entropy"), HasSubstr("7"))));
  EXPECT_NO_THROW(step(good).item());
}

class CudaCapturedOutputs : public GpuTest {};

TEST_F(CudaCapturedOutputs, CountAsWrittenByEachReplay) {
  const DefaultDevice here(gpu);
  const Tensor v = randn({64}).set_requires_grad();
  auto step = capture([](const Tensor& x) { return exp(x); });
  for (int i = 0; i < 3; ++i) step(randn({64}));
  const Tensor kept = sum(v * step(randn({64})));
  kept.backward();  // no replay in between
  const Tensor stale = sum(v * step(randn({64})));
  step(randn({64}));
  EXPECT_THROWS_SAYING(stale.backward(), AutogradError, "captured_step");
}

/// Segments that went back to the driver while a step was recorded, for the bf16 copy of a weight that it is the first
/// to use: no part of its pool. Checks values where there are any.
int segments_given_while_recording(Device device) {
  const DefaultDevice here(device);
  memory::empty_cache(device);  // else the weight may take a part of a larger segment, whose rest serves the copy
  nn::Linear layer(4096, 3200, /*bias=*/false);  // 25 MiB in bf16
  int calls = 0;
  const auto run = [&](const Tensor& x) {
    const NoGrad no_grad;
    const Autocast low(DType::bf16);
    return ++calls < 3 ? x + 1 : layer(x);
  };
  auto step = capture(run);
  const Tensor x = rand({8, 4096});
  for (int i = 0; i < 2; ++i) step(x);
  memory::empty_cache(device);
  { const Tensor a = empty({12 << 20}, DType::u8), b = empty({14 << 20}, DType::u8); }
  memory::reset_log(device);
  const Tensor first = clone(step(x));
  EXPECT_TRUE(step.is_captured());
  int given = 0;
  for (const memory::Event& e : memory::snapshot(device).events) given += e.kind == memory::EventKind::segment_free;
  const Tensor second = step(x), expected = run(x);
  if (!device.is_meta) {
    EXPECT_EQ(to(first, DType::f32).to_vector<float>(), to(expected, DType::f32).to_vector<float>());
    EXPECT_EQ(to(second, DType::f32).to_vector<float>(), to(expected, DType::f32).to_vector<float>());
  }
  return given;
}

class CudaCapturedMemory : public GpuTest {};

TEST_F(CudaCapturedMemory, UnusedSegmentsMakeWayWhileAStepIsRecorded) {
  EXPECT_EQ(segments_given_while_recording(gpu), 2);
}
TEST(CapturedMemoryPredicted, UnusedSegmentsMakeWayWhileAStepIsRecorded) {
  { const Tensor large = empty({300 << 20}, DType::u8, Device::meta(gpu)); }
  EXPECT_EQ(segments_given_while_recording(Device::meta(gpu)), 2);
}

}  // namespace
}  // namespace bytetape::test
