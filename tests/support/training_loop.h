#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/support/predict_cases.h"

namespace bytetape::test {

using Rule = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;

/// A model, and the images that it takes.
struct ImageModel {
  std::function<nn::Sequential()> make;
  Shape image;
  std::int64_t batch;
};

/// What a training loop has before its first step.
struct TrainingLoop {
  TrainingLoop(const ImageModel& net, const Rule& rule)
      : model(net.make()), optimizer(rule(model.parameters())), image(net.image), batch(net.batch) {}

  /// Random images and classes.
  Tensor images(std::int64_t n) const {
    Shape shape = image;
    shape.insert(0, n);
    return randn(shape, DType::f32, default_device(), default_generator(), memory::Role::input);
  }
  Tensor classes(std::int64_t n) const {
    return randint(0, 10, n, DType::i64, default_device(), default_generator(), memory::Role::input);
  }
  Tensor loss() { return cross_entropy(model(images(batch)), classes(batch)); }

  /// A step on random images.
  void train() {
    optimizer->zero_grad();
    loss().backward();
    optimizer->step();
  }

  nn::Sequential model;
  std::unique_ptr<optim::Optimizer> optimizer;
  Shape image;
  std::int64_t batch;
};

template <class O, class Options>
Rule rule(const Options& options) {
  return [=](std::vector<Tensor> parameters) { return std::make_unique<O>(std::move(parameters), options); };
}
inline Rule sgd(const optim::SGDOptions& options = {.lr = 0.01, .momentum = 0.9}) { return rule<optim::SGD>(options); }
inline Rule adam(const optim::AdamOptions& options = {}) { return rule<optim::Adam>(options); }

/// A loop of steps, each marked.
inline PredictCase loop(std::string name, const ImageModel& net, const Rule& rule,
                        std::function<void(TrainingLoop&)> take) {
  return {std::move(name), [=] {
            auto made = std::make_shared<TrainingLoop>(net, rule);
            return [=] {
              const memory::Step mark;
              take(*made);
            };
          }};
}

}  // namespace bytetape::test
