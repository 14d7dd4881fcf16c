#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/cifar10/resnet.h"
#include "examples/mnist/models.h"

namespace bytetape::bench {

/// A workload. PyTorch's side has the same ones.
struct Workload {
  std::string name, precision;
  std::int64_t batch;
  std::function<std::unique_ptr<nn::Sequential>()> model;
  std::function<Tensor(std::int64_t batch)> input;
  std::function<std::unique_ptr<optim::Optimizer>(nn::Module&)> optimizer;
};

inline std::unique_ptr<nn::Sequential> mlp() {
  return std::make_unique<nn::Sequential>(nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(),
                                          nn::Linear(1024, 10));
}
inline std::unique_ptr<nn::Sequential> cnn() { return std::make_unique<nn::Sequential>(examples::mnist_cnn()); }
inline std::unique_ptr<nn::Sequential> resnet() { return std::make_unique<nn::Sequential>(examples::resnet18()); }

inline Tensor flat(std::int64_t batch) { return randn({batch, 784}); }
inline auto images(std::int64_t channels, std::int64_t size) {
  return [=](std::int64_t batch) { return randn({batch, channels, size, size}); };
}

inline std::unique_ptr<optim::Optimizer> sgd(nn::Module& m) {
  return std::make_unique<optim::SGD>(
      m.parameters(), optim::SGDOptions{.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
}
inline std::unique_ptr<optim::Optimizer> adam(nn::Module& m) {
  return std::make_unique<optim::Adam>(m.parameters(), optim::AdamOptions{.lr = 1e-3});
}

inline const std::vector<Workload>& workloads() {
  static const std::vector<Workload> table{
      {"mlp_b256_fp32", "fp32", 256, mlp, flat, sgd},
      {"mnist_cnn_b64_fp32", "fp32", 64, cnn, images(1, 28), adam},
      {"resnet18_b32_fp32", "fp32", 32, resnet, images(3, 32), sgd},
      {"mlp_b256_tf32", "tf32", 256, mlp, flat, sgd},
      {"mnist_cnn_b64_tf32", "tf32", 64, cnn, images(1, 28), adam},
      {"mnist_cnn_b1024_tf32", "tf32", 1024, cnn, images(1, 28), adam},
      {"resnet18_b128_tf32", "tf32", 128, resnet, images(3, 32), sgd},
      {"resnet18_b512_tf32", "tf32", 512, resnet, images(3, 32), sgd},
      {"resnet18_b128_bf16", "bf16", 128, resnet, images(3, 32), sgd},
      {"resnet18_b512_bf16", "bf16", 512, resnet, images(3, 32), sgd},
  };
  return table;
}

/// A model, its optimizer and one batch on default_device().
class Training {
 public:
  /// With `recomputes`, forward saves less for backward (Recompute).
  explicit Training(const Workload& w, bool recomputes = false)
      : model_(w.model()),
        optimizer_(w.optimizer(*model_)),
        x_(w.input(w.batch)),
        y_(randint(0, 10, {w.batch})),
        computed_(w.precision == "bf16" ? DType::bf16 : DType::f32),
        recomputes_(recomputes) {
    x_.storage().set_role(memory::Role::input);
    y_.storage().set_role(memory::Role::input);
  }

  /// Takes a training step on a batch that is already on the device.
  Tensor step() {
    const Autocast autocast(computed_);
    optimizer_->zero_grad();
    Tensor loss = forward();
    loss.backward();
    optimizer_->step();
    return loss.detach();
  }

 private:
  Tensor forward() {
    std::optional<Recompute> recompute;
    if (recomputes_) recompute.emplace();
    return cross_entropy((*model_)(x_), y_);
  }

  std::unique_ptr<nn::Sequential> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor x_, y_;
  DType computed_;
  bool recomputes_;
};

}  // namespace bytetape::bench
