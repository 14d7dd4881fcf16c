#include "bytetape/optim/step_in_backward.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape::optim {
namespace {

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)>;

nn::Sequential net() {
  manual_seed(7);
  return nn::Sequential(nn::Linear(64, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(), nn::Linear(64, 8));
}

struct Trained {
  std::vector<Tensor> parameters;
  std::size_t peak_gradients;
};

Trained train(const Make& make, bool in_backward) {
  nn::Sequential model = net();
  const auto optimizer = make(model.parameters());
  const auto steps = in_backward ? std::make_unique<StepInBackward>(*optimizer) : nullptr;
  const auto gradients = [] { return test::statistics().by_role[static_cast<std::size_t>(memory::Role::gradient)]; };
  const std::size_t before = gradients().current;  // of models that still live
  memory::reset_peaks(Device::cpu());
  for (int i = 0; i < 5; ++i) {
    if (!in_backward) optimizer->zero_grad();
    mse_loss(model(randn({16, 64})), randn({16, 8})).backward();
    if (!in_backward) optimizer->step();
  }
  return {model.parameters(), gradients().peak - before};
}

void expect_equal(const Make& make) {
  const Trained plain = train(make, false), fused = train(make, true);
  for (std::size_t i = 0; i < plain.parameters.size(); ++i)
    EXPECT_TRUE(test::all_close(fused.parameters[i], plain.parameters[i], 0, 0)) << i;
  EXPECT_LT(fused.peak_gradients, plain.peak_gradients / 2);
}

TEST(StepInBackward, IsTheSameStepInLessMemory) {
  expect_equal([](auto p) { return std::make_unique<SGD>(p, SGDOptions{.lr = 0.1, .momentum = 0.9}); });
  expect_equal([](auto p) { return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.01}); });
  expect_equal([](auto p) { return std::make_unique<RMSprop>(p, RMSpropOptions{.lr = 0.01, .momentum = 0.9}); });
}

TEST(StepInBackward, GoesOnAfterAConversion) {
  nn::Linear layer(3, 2);
  nn::init::zeros_(layer.weight);
  SGD sgd(layer.parameters(), {.lr = 1});
  const StepInBackward steps(sgd);
  const Tensor kept = sum(layer(ones({4, 3})));
  layer.to(DType::f64);
  sum(layer(ones({4, 3}, DType::f64))).backward();
  EXPECT_TRUE(test::all_close(layer.weight, full({2, 3}, -4, DType::f64)));
}

TEST(StepInBackward, EndsWithItsScope) {
  nn::Sequential model = net();
  SGD sgd(model.parameters(), {.lr = 0.1});
  { const StepInBackward steps(sgd); }
  const std::vector<double> before = model.parameters()[0].to_vector<double>();
  sum(model(randn({4, 64}))).backward();
  EXPECT_EQ(model.parameters()[0].to_vector<double>(), before);
  EXPECT_TRUE(model.parameters()[0].grad().defined());
}

TEST(StepInBackward, BeginsWithoutTheGradientsThatItFinds) {
  Tensor p = ones({2}).set_requires_grad();
  p.set_grad(full({2}, 100));
  SGD sgd({p}, {.lr = 1});
  const StepInBackward steps(sgd);
  EXPECT_FALSE(p.grad().defined());
  sum(p * 0.5).backward();
  EXPECT_EQ(p.detach().to_vector<float>(), (std::vector<float>{0.5, 0.5}));
}

}  // namespace
}  // namespace bytetape::optim
