#include <bytetape/bytetape.h>

#include <functional>
#include <memory>
#include <random>

#include "bench/fragmentation/traces.h"
#include "examples/autoencoder/models.h"
#include "examples/cifar10/resnet.h"
#include "examples/mnist/models.h"

namespace bytetape::bench {
namespace {

struct Model {
  std::string name;
  std::function<nn::Sequential()> make;
  Shape image;
  std::int64_t batch, test_batch;
  bool is_classifier;  // or trained on its own images
};

const std::vector<Model>& models() {
  static const std::vector<Model> all{
      {"mnist_cnn", examples::mnist_cnn, {1, 28, 28}, 64, 1000, true},
      {"resnet18", [] { return examples::resnet18(); }, {3, 32, 32}, 16, 100, true},
      {"autoencoder", examples::autoencoder, {1, 28, 28}, 64, 1000, false},
  };
  return all;
}

/// A model in training, and in a test.
class Run {
 public:
  explicit Run(const Model& m) : model_(m), net_(m.make()), adam_(net_.parameters()) {}

  void train(std::int64_t batch) {
    const memory::Step step;
    adam_.zero_grad();
    loss(batch).backward();
    adam_.step();
  }
  void test() {
    const memory::Step step;
    const NoGrad no_grad;
    net_.eval();
    loss(model_.test_batch);
    net_.train();
  }

 private:
  Tensor loss(std::int64_t batch) {
    Shape shape = model_.image;
    shape.insert(0, batch);
    const Tensor x = empty(shape, DType::f32, default_device(), memory::Role::input);
    const Tensor y = empty({batch}, DType::i64, default_device(), memory::Role::input);
    return model_.is_classifier ? cross_entropy(net_(x), y) : mse_loss(net_(x), x);
  }

  const Model& model_;
  nn::Sequential net_;
  optim::Adam adam_;
};

/// `take` is one step of the prediction, which is all of the trace.
Trace trace(const std::string& name, const Model& m, const std::function<void(Run&)>& take) {
  const memory::Prediction p = memory::predict(Device::cuda(),
                                               [&] {
                                                 auto run = std::make_shared<Run>(m);
                                                 return [=] { take(*run); };
                                               },
                                               {.min_steps = 1, .max_steps = 1});
  return {name, memory::log_of({p.snapshot}, name).devices.front()};
}

}  // namespace

std::vector<Trace> model_traces() {
  std::vector<Trace> traces;
  for (const Model& m : models()) {
    traces.push_back(trace(m.name + ", epochs", m, [&](Run& run) {
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (int i = 0; i < 4; ++i) run.train(m.batch);
        run.train(m.batch / 3);
        run.test();
      }
    }));
    traces.push_back(trace(m.name + ", any batch", m, [&](Run& run) {
      std::minstd_rand random(1);
      for (int i = 0; i < 60; ++i) run.train(m.batch / 4 + static_cast<std::int64_t>(random()) % (2 * m.batch));
    }));
  }
  return traces;
}

}  // namespace bytetape::bench
