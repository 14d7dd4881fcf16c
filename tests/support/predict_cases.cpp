#include "tests/support/predict_cases.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bytetape/bytetape.h"
#include "examples/autoencoder/models.h"
#include "examples/cifar10/models.h"
#include "examples/mnist/models.h"
#include "tests/support/events.h"
#include "tests/support/memory.h"
#include "tests/support/training_loop.h"

namespace bytetape::test {

std::vector<PredictCase> model_cases() {
  const std::vector<std::pair<std::string, ImageModel>> nets{
      {"mnist_mlp", {examples::mnist_mlp, {1, 28, 28}, 16}},
      {"mnist_cnn", {examples::mnist_cnn, {1, 28, 28}, 8}},
      {"cifar10_small", {examples::small_net, {3, 32, 32}, 4}},
      {"resnet18", {[] { return examples::resnet18(); }, {3, 8, 8}, 3}},
      {"autoencoder", {examples::autoencoder, {1, 28, 28}, 8}}};
  std::vector<PredictCase> all;
  for (const auto& [name, net] : nets) {
    const bool rebuilds = name == "autoencoder";
    const auto loss = [rebuilds](TrainingLoop& l) {
      if (!rebuilds) return l.loss();
      const Tensor x = l.images(l.batch);
      return mse_loss(l.model(x), x);
    };
    all.push_back(loop(name + "_trains", net, adam(), [loss](TrainingLoop& l) {
      l.optimizer->zero_grad();
      loss(l).backward();
      l.optimizer->step();
    }));
    all.push_back(loop(name + "_evaluates", net, sgd(), [](TrainingLoop& l) {
      const NoGrad no_grad;
      l.model.eval();
      argmax(flatten(l.model(l.images(l.batch)), 1), 1);
    }));
  }
  const std::vector<std::pair<std::string, Rule>> rules{
      {"sgd", sgd({.lr = 0.1})},
      {"momentum", sgd({.lr = 0.1, .momentum = 0.9})},
      {"nesterov", sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true})},
      {"adam", adam({.lr = 1e-3, .weight_decay = 1e-2})},
      {"adamw", rule<optim::AdamW>(optim::AdamWOptions{.lr = 1e-3})},
      {"rmsprop", rule<optim::RMSprop>(optim::RMSpropOptions{.lr = 1e-3})},
      {"rmsprop_centered", rule<optim::RMSprop>(optim::RMSpropOptions{.lr = 1e-3, .momentum = 0.9, .centered = true})}};
  for (const auto& [name, rule] : rules)
    all.push_back(loop(name, nets[0].second, rule, [](TrainingLoop& l) { l.train(); }));
  return all;
}

const std::vector<PredictCase>& predict_cases() {
  static const std::vector<PredictCase> all = [] {
    std::vector<PredictCase> models = model_cases();
    for (PredictCase& c : loop_cases()) models.push_back(std::move(c));
    return models;
  }();
  return all;
}

namespace {

/// The books behind as many steps, or where memory ran out, from nothing held and an empty cache.
memory::Snapshot run(const PredictCase& program, Device device, std::size_t steps, std::size_t limit) {
  EXPECT_EQ(allocated(device), 0u) << "something is held before the program";
  memory::empty_cache(device);
  memory::reset_log(device, std::size_t{1} << 18);
  memory::reset_peaks(device);
  const std::size_t limit_before = memory::snapshot(device).limit;
  memory::set_limit(std::min(limit, limit_before), device);
  const DefaultDevice here(device);
  memory::Snapshot left;
  try {
    const auto step = program.build();
    try {
      for (std::size_t i = 0; i < steps; ++i) step();
    } catch (const OutOfMemory&) {}
    left = memory::snapshot(device);
  } catch (const OutOfMemory&) { left = memory::snapshot(device); }
  memory::set_limit(limit_before, device);
  return left;
}

}  // namespace

memory::Prediction expect_as_predicted(const PredictCase& program, Device device,
                                       const memory::PredictOptions& options) {
  const memory::Prediction predicted = memory::predict(device, program.build, options);
  const memory::Snapshot real = run(program, device, predicted.steps.size(), options.limit);
  EXPECT_GT(real.events.size(), 0u);
  EXPECT_EQ(real.dropped, 0u);
  EXPECT_EQ(first_difference(real.events, predicted.snapshot.events), "");
  EXPECT_EQ(real.statistics.allocated.peak, predicted.peak_allocated());
  EXPECT_EQ(real.statistics.reserved.peak, predicted.peak_reserved());
  EXPECT_EQ(real.statistics.at_peak, predicted.snapshot.statistics.at_peak);
  return predicted;
}

}  // namespace bytetape::test
