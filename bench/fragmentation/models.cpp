#include <bytetape/bytetape.h>

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>

#include "bench/fragmentation/traces.h"
#include "examples/autoencoder/models.h"
#include "examples/cifar10/models.h"
#include "examples/cifar10/resnet.h"
#include "examples/mnist/models.h"

namespace bytetape::bench {
namespace {

struct Model {
  std::string name;
  std::function<nn::Sequential()> make;
  Shape image;
  std::int64_t batch, test_batch;
  bool is_classifier;  // else it is an autoencoder
};

/// The models. The first `in_table` are in the table, and all are in the grid.
constexpr std::size_t in_table = 3;
const std::vector<Model>& models() {
  static const std::vector<Model> all{
      {"mnist_cnn", examples::mnist_cnn, {1, 28, 28}, 64, 1000, true},
      {"resnet18", [] { return examples::resnet18(); }, {3, 32, 32}, 16, 100, true},
      {"autoencoder", examples::autoencoder, {1, 28, 28}, 64, 1000, false},
      {"mnist_mlp", examples::mnist_mlp, {1, 28, 28}, 64, 1000, true},
      {"small_net", examples::small_net, {3, 32, 32}, 64, 1000, true},
  };
  return all;
}

/// Trains and tests a model, under autocast if a dtype is given.
class Run {
 public:
  explicit Run(const Model& m, std::optional<DType> autocast = {})
      : model_(m), autocast_(autocast), net_(m.make()), adam_(net_.parameters()) {}

  void train(std::int64_t batch) {
    const memory::Step step;
    adam_.zero_grad();
    loss(batch).backward();
    adam_.step();
  }
  void test(std::int64_t batch) {
    const memory::Step step;
    const NoGrad no_grad;
    net_.eval();
    loss(batch);
    net_.train();
  }

 private:
  Tensor loss(std::int64_t batch) {
    Shape shape = model_.image;
    shape.insert(0, batch);
    const Tensor x = empty(shape, DType::f32, default_device(), memory::Role::input);
    const Tensor y = empty({batch}, DType::i64, default_device(), memory::Role::input);
    std::optional<Autocast> narrow;
    if (autocast_) narrow.emplace(*autocast_);
    return model_.is_classifier ? cross_entropy(net_(x), y) : mse_loss(net_(x), x);
  }

  const Model& model_;
  std::optional<DType> autocast_;
  nn::Sequential net_;
  optim::Adam adam_;
};

using Take = std::function<void(Run&)>;

/// Returns the trace of a prediction. `take` runs the whole program, as one step of the prediction.
Trace trace(const std::string& name, const Model& m, const Take& take, std::optional<DType> autocast = {}) {
  const memory::Prediction p = memory::predict(Device::cuda(),
                                               [&] {
                                                 auto run = std::make_shared<Run>(m, autocast);
                                                 return [=] { take(*run); };
                                               },
                                               {.min_steps = 1, .max_steps = 1});
  return {name, memory::log_of({p.snapshot}, name).devices.front()};
}

/// Returns a program of n epochs: four batches, a smaller one, and tests.
Take epochs(int n, std::int64_t batch, std::int64_t last, const std::vector<std::int64_t>& tests) {
  return [=](Run& run) {
    for (int epoch = 0; epoch < n; ++epoch) {
      for (int i = 0; i < 4; ++i) run.train(batch);
      run.train(last);
      for (const std::int64_t test : tests) run.test(test);
    }
  };
}

/// Returns a program of n steps, with random batches from 0.25 to 2.25 times `batch`.
Take any_batch(int n, std::int64_t batch) {
  return [=](Run& run) {
    std::minstd_rand random(1);
    for (int i = 0; i < n; ++i) run.train(batch / 4 + static_cast<std::int64_t>(random()) % (2 * batch));
  };
}

}  // namespace

std::vector<Trace> model_traces() {
  std::vector<Trace> traces;
  for (const Model& m : std::span(models()).first(in_table)) {
    traces.push_back(trace(m.name + ", epochs", m, epochs(2, m.batch, m.batch / 3, {m.test_batch})));
    traces.push_back(trace(m.name + ", any batch", m, any_batch(60, m.batch)));
  }
  return traces;
}

void each_of_grid(const std::function<void(const Trace&)>& f) {
  for (const Model& m : models())
    for (const std::optional<DType> autocast : {std::optional<DType>(), std::optional(DType::bf16)})
      for (const std::int64_t n : {16, 32, 48, 64, 96, 100, 128, 200, 256, 384, 500, 512, 1000, 1024, 2000, 2048}) {
        const auto tell = [&](const char* program, const Take& take) { f(trace(program, m, take, autocast)); };
        tell("batches of one size", [=](Run& run) {
          for (int i = 0; i < 12; ++i) run.train(n);
        });
        tell("epochs, tests of one size", epochs(4, n, n / 3, {m.test_batch, m.test_batch}));
        tell("epochs, tests of two sizes", epochs(4, n, n * 7 / 9, {2 * n, n / 2}));
        tell("batches of any size", any_batch(30, n));
      }
}

}  // namespace bytetape::bench
