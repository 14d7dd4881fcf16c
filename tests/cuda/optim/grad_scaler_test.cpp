// Scaled training against the CPU's, and captured against eager.
#include "bytetape/optim/grad_scaler.h"

#include <limits>

#include "tests/cuda/gpu.h"
#include "tests/cuda/nets.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

class CudaGradScaler : public GpuTest {
 protected:
  /// Parameters of `gradients`' shapes, with these gradients, on a device.
  static std::vector<Tensor> on(Device device, const std::vector<Tensor>& gradients) {
    std::vector<Tensor> parameters;
    for (const Tensor& g : gradients) {
      const Tensor there = clone(to(g, device));
      parameters.push_back(ones_like(there).set_requires_grad());
      parameters.back().set_grad(there);
    }
    return parameters;
  }
  /// What is left of the gradients, and of the parameters after a step.
  static std::vector<std::vector<double>> unscaled(Device device, const std::vector<Tensor>& gradients) {
    const std::vector<Tensor> p = on(device, gradients);
    optim::SGD sgd(p, {.lr = 1});
    optim::GradScaler scaler({.init_scale = 1000});
    scaler.scale(zeros({}, DType::f32, device));
    scaler.unscale_(sgd);
    scaler.step(sgd);
    scaler.update();
    std::vector<std::vector<double>> left;
    for (const Tensor& x : p) {
      left.push_back(x.grad().to_vector<double>());
      left.push_back(x.detach().to_vector<double>());
    }
    left.push_back({scaler.get_scale()});
    return left;
  }
};

TEST_F(CudaGradScaler, UnscalesAsTheCpuDoes) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    SCOPED_TRACE(detail::concat(dtype));
    std::vector<Tensor> gradients;
    for (const Shape& shape : {Shape{1}, Shape{3}, Shape{}, Shape{0}, Shape{1023}, Shape{4097}, Shape{2, 3, 5, 7}})
      gradients.push_back(random_tensor(shape, dtype));
    gradients.push_back(channels_last(random_tensor({4, 3, 3, 5}, dtype)));
    gradients.push_back(narrow(random_tensor({5000}, dtype), 0, 1, 4999));
    const auto expected = unscaled(Device::cpu(), gradients), found = unscaled(gpu, gradients);
    for (std::size_t i = 0; i < found.size(); i += 2) EXPECT_EQ(found[i], expected[i]) << i;  // one rounding
    for (std::size_t i = 1; i < found.size(); i += 2) EXPECT_TRUE(all_close(found[i], expected[i], 1e-2, 1e-6)) << i;
  }
}

TEST_F(CudaGradScaler, FindsTheOneThatIsNotFinite) {
  for (const std::int64_t at : {0, 1, 4096, 70000})
    for (const double bad : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
      std::vector<double> values(70001, 1);
      values[static_cast<std::size_t>(at)] = bad;
      const auto left = unscaled(gpu, {ones({3}), make_tensor(values, {70001}, DType::f32)});
      EXPECT_EQ(left.back(), std::vector<double>{500}) << at;
      EXPECT_EQ(left[1], std::vector<double>(3, 1)) << "no parameter moves";
    }
}

TEST_F(CudaGradScaler, TakesMoreGradientsThanOneLaunch) {
  std::vector<Tensor> gradients;
  for (std::int64_t i = 0; i < 2100; ++i)
    gradients.push_back(random_tensor({1 + i % 7}, i % 3 ? DType::f32 : DType::f64));
  const auto expected = unscaled(Device::cpu(), gradients), found = unscaled(gpu, gradients);
  for (std::size_t i = 0; i < found.size(); i += 2) EXPECT_EQ(found[i], expected[i]) << i;
  gradients[2001] = full({1}, infinity);
  EXPECT_EQ(unscaled(gpu, gradients).back(), std::vector<double>{500});
}

/// What ten steps leave, of which some overflow: losses, the scale, parameters.
std::vector<std::vector<double>> train(const std::string& name, bool captured) {
  const DefaultDevice here(gpu);
  manual_seed(3);
  Net net = make_net(name, DType::f32);
  optim::GradScaler scaler({.growth_interval = 2});
  const auto step = [&](const Tensor& x, const Tensor& y, const Tensor& boost) {
    net.optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast autocast(DType::f16);
      loss = cross_entropy(net.model(x), y);
    }
    scaler.scale(loss * boost).backward();
    scaler.unscale_(*net.optimizer);
    optim::clip_grad_norm_(net.model.parameters(), 1);
    scaler.step(*net.optimizer);
    scaler.update();
    return loss.detach();
  };
  auto captured_step = capture(step);
  std::vector<std::vector<double>> left;
  for (int i = 0; i < 12; ++i) {
    const Tensor x = rand(net.batch, DType::f32), y = randint(0, 5, net.batch[0]);
    const Tensor boost = full({}, i == 1 || i == 4 || i == 5 || i == 8 ? infinity : 1);
    left.push_back((captured ? captured_step(x, y, boost) : step(x, y, boost)).to_vector<double>());
    left.push_back({scaler.get_scale()});
  }
  EXPECT_EQ(captured_step.is_captured(), captured);
  for (const auto& [key, x] : net.model.state_dict()) left.push_back(x.detach().to_vector<double>());
  return left;
}

TEST_F(CudaGradScaler, IsCapturedBitForBit) {
  for (const char* name : {"mlp", "conv"}) {
    const auto eager = train(name, false);
    EXPECT_EQ(train(name, true), eager) << name;
    EXPECT_EQ(eager[23], std::vector<double>{65536.0 / 2}) << name;
  }
  EXPECT_EQ(allocated(gpu), 0u);
}

// Adam counts the steps that were taken, as on the CPU.
TEST_F(CudaGradScaler, TrainsAsTheCpuDoes) {
  const auto trained = [](Device device) {
    Tensor p = to(full({100}, 0.5, DType::f64), device).set_requires_grad();
    optim::Adam adam({p}, {.lr = 0.1});
    optim::GradScaler scaler({.growth_interval = 2});
    std::vector<std::vector<double>> left;
    for (int i = 0; i < 20; ++i) {
      adam.zero_grad();
      scaler.scale(sum(p * p) * (i % 5 == 1 ? infinity : 1.0)).backward();
      scaler.step(adam);
      scaler.update();
      left.push_back(p.detach().to_vector<double>());
      left.push_back({scaler.get_scale()});
    }
    return left;
  };
  const auto expected = trained(Device::cpu()), found = trained(gpu);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(all_close(found[i], expected[i], 1e-12, 1e-12)) << i;
}

TEST_F(CudaGradScaler, DoesNotWaitForTheDevice) {
  const DefaultDevice here(gpu);
  Tensor p = ones({1000}).set_requires_grad();
  optim::Adam adam({p}, {.lr = 0.1});
  optim::GradScaler scaler;
  const auto step = [&] {
    adam.zero_grad();
    scaler.scale(sum(p * p)).backward();
    scaler.step(adam);
    scaler.update();
  };
  step();
  const auto before = memory::stats(gpu).waits;
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(memory::stats(gpu).waits, before);
}

}  // namespace
}  // namespace bytetape::test
