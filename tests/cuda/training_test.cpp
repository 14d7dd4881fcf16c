// Whole training steps: the CPU's numbers, the same bits again, and the bytes that were predicted.
#include "tests/cuda/gpu.h"
#include "tests/cuda/nets.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/training/steps.h"

namespace bytetape::test {
namespace {

using Values = std::vector<std::pair<std::string, std::vector<double>>>;

/// The losses of five steps, and what they made of parameters, buffers and gradients.
Values train(const std::string& name, Device device, DType dtype) {
  const DefaultDevice here(device);
  manual_seed(7);
  Net net = make_net(name, dtype);
  Values values;
  for (int s = 0; s < 5; ++s)
    values.emplace_back(detail::concat("loss ", s), std::vector{train_step(net, dtype).item<double>()});
  for (const auto& [key, x] : net.model.state_dict()) {
    values.emplace_back(key, x.detach().to_vector<double>());
    if (x.grad().defined()) values.emplace_back(key + ".grad", x.grad().to_vector<double>());
  }
  return values;
}

class CudaTraining : public GpuTest, public testing::WithParamInterface<const char*> {};

TEST_P(CudaTraining, AgreesWithTheCpu) {
  const Values here = train(GetParam(), Device::cpu(), DType::f64), there = train(GetParam(), gpu, DType::f64);
  ASSERT_EQ(there.size(), here.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(there[i].first, here[i].first);
    EXPECT_TRUE(all_close(there[i].second, here[i].second, 1e-9, 1e-9)) << here[i].first;
  }
}

TEST_P(CudaTraining, RepeatsBitForBit) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const bool tf32 : {false, true}) {
      if (tf32 && dtype != DType::f32) continue;
      SCOPED_TRACE(detail::concat(dtype, tf32 ? " as tf32" : ""));
      const AllowTf32 allow(tf32);
      const Values one = train(GetParam(), gpu, dtype), two = train(GetParam(), gpu, dtype);
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].second, two[i].second) << one[i].first;
    }
}

TEST_P(CudaTraining, HasThePredictedEvents) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    SCOPED_TRACE(detail::concat(dtype));
    const auto program = [&](Device device) {
      const DefaultDevice here(device);
      manual_seed(7);
      Net net = make_net(GetParam(), dtype);
      for (int s = 0; s < 3; ++s) train_step(net, dtype);
    };
    const auto predicted = record_events(Device::meta(gpu), program);
    const auto real = record_events(gpu, program);
    EXPECT_GT(real.size(), 100u);
    EXPECT_EQ(first_difference(real, predicted), "");
    EXPECT_EQ(allocated(gpu), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, CudaTraining, testing::Values("mlp", "conv"),
                         [](const auto& info) { return std::string(info.param); });

class CudaExample : public GpuTest, public testing::WithParamInterface<const char*> {};

TEST_P(CudaExample, HasThePredictedEvents) {
  const auto program = [](Device device) {
    Steps training(GetParam(), device, 64);
    for (int s = 0; s < 3; ++s) training.step();
  };
  const auto predicted = record_events(Device::meta(gpu), program);
  EXPECT_EQ(first_difference(record_events(gpu, program), predicted), "");
}

INSTANTIATE_TEST_SUITE_P(Models, CudaExample, testing::Values("mlp", "cnn"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace bytetape::test
