// Captured steps against the same steps as they are, bit for bit, on a device whose kernels are the CPU's.
#include "bytetape/autograd/capture.h"

#include <algorithm>

#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/stand_in.h"
#include "tests/training/deferred.h"
#include "tests/training/residual_net.h"

namespace bytetape {
namespace {

using test::ResidualNet;
using test::Rule;

/// What ten steps of a small residual network come to.
std::vector<std::vector<float>> train(Rule rule, DType computed, bool captured) {
  const DefaultDevice here(Device::cuda());
  ResidualNet net(rule, computed);
  const auto step = [&](const Tensor& x, const Tensor& y) { return net.step(x, y); };
  auto captured_step = capture(step);
  std::vector<std::vector<float>> left;
  for (int i = 0; i < 10; ++i) {
    net.optimizer->set_lr(0.02 / (i + 1));
    const Tensor x = ResidualNet::images(), y = ResidualNet::classes();
    left.push_back((captured ? captured_step(x, y) : step(x, y)).to_vector<float>());
  }
  EXPECT_EQ(captured_step.is_captured(), captured);
  for (auto& values : net.left()) left.push_back(std::move(values));
  return left;
}

TEST(CapturedTraining, IsTheStepsBitForBit) {
  const test::StandIn stand_in(test::deferred_backend());
  for (const Rule rule : {Rule::sgd, Rule::adam}) {
    SCOPED_TRACE(rule == Rule::sgd ? "SGD" : "Adam");
    for (const DType computed : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(detail::concat(computed));
      EXPECT_EQ(train(rule, computed, true), train(rule, computed, false));
    }
  }
}

TEST(CapturedTraining, HasThePredictedEvents) {
  const test::StandIn stand_in(test::deferred_backend());
  for (const Rule rule : {Rule::sgd, Rule::adam}) {
    SCOPED_TRACE(rule == Rule::sgd ? "SGD" : "Adam");
    const auto program = [&](Device device) { test::train_captured(rule, DType::bf16, device); };
    const auto predicted = test::record_events(Device::meta(Device::cuda()), program);
    const auto real = test::record_events(Device::cuda(), program);
    EXPECT_EQ(test::first_difference(real, predicted), "");
    EXPECT_TRUE(std::any_of(real.begin(), real.end(), [](const memory::Event& e) {
      return e.kind == memory::EventKind::alloc && e.role == memory::Role::workspace && e.bytes > 100'000 &&
             memory::name_of(e.op) == "captured_step";
    })) << "the rest of the pool";
  }
}

}  // namespace
}  // namespace bytetape
