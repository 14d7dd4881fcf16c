#pragma once
#include <bytetape/bytetape.h>

#include <memory>

#include "examples/mnist/models.h"

namespace bytetape {

/// Training steps of a model on a device, as the bundled example makes them.
class Steps {
 public:
  Steps(const std::string& name, Device device, std::int64_t batch) : here_(device), batch_(batch) {
    manual_seed(1);
    model_ = std::make_unique<nn::Sequential>(name == "mlp" ? examples::mnist_mlp() : examples::mnist_cnn());
    adam_ = std::make_unique<optim::Adam>(model_->parameters(), optim::AdamOptions{.lr = 1e-3});
  }

  /// On random images; returns the loss.
  Tensor step() {
    const memory::Step mark(device());
    Generator& g = default_generator();
    const Tensor x = randn({batch_, 1, 28, 28}, DType::f32, device(), g, memory::Role::input);
    const Tensor y = randint(0, 10, batch_, DType::i64, device(), g, memory::Role::input);
    adam_->zero_grad();
    Tensor loss = cross_entropy((*model_)(x), y);
    loss.backward();
    adam_->step();
    return loss;
  }

  nn::Sequential& model() { return *model_; }

 private:
  Device device() const { return default_device(); }
  DefaultDevice here_;
  std::int64_t batch_;
  std::unique_ptr<nn::Sequential> model_;
  std::unique_ptr<optim::Adam> adam_;
};

}  // namespace bytetape
