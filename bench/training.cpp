#include "bench/training.h"

namespace bytetape::bench {
namespace {

std::unique_ptr<nn::Module> mlp() {
  return std::make_unique<nn::Sequential>(nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(),
                                          nn::Linear(1024, 10));
}
std::unique_ptr<nn::Module> cnn() { return std::make_unique<nn::Sequential>(examples::mnist_cnn()); }

Tensor flat(std::int64_t batch) { return randn({batch, 784}); }
Tensor images(std::int64_t batch) { return randn({batch, 1, 28, 28}); }

std::unique_ptr<optim::Optimizer> sgd(nn::Module& m) {
  return std::make_unique<optim::SGD>(
      m.parameters(), optim::SGDOptions{.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
}
std::unique_ptr<optim::Optimizer> adam(nn::Module& m) {
  return std::make_unique<optim::Adam>(m.parameters(), optim::AdamOptions{.lr = 1e-3});
}

}  // namespace

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> table{
      {"mlp_b256_fp32", "fp32", 256, mlp, flat, sgd},
      {"mnist_cnn_b64_fp32", "fp32", 64, cnn, images, adam},
  };
  return table;
}

Training::Training(const Workload& w)
    : model_(w.model()), optimizer_(w.optimizer(*model_)), x_(w.input(w.batch)), y_(randint(0, 10, {w.batch})) {
  x_.storage().set_role(memory::Role::input);
  y_.storage().set_role(memory::Role::input);
}

Tensor Training::step() {
  optimizer_->zero_grad();
  Tensor loss = cross_entropy((*model_)(x_), y_);
  loss.backward();
  optimizer_->step();
  return loss.detach();
}

}  // namespace bytetape::bench
