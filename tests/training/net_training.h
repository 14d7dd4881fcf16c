#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "examples/cifar10/resnet.h"

namespace bytetape::test {

enum class Rule { sgd, adam, rmsprop };
inline const char* rule_name(Rule rule) { return rule == Rule::sgd ? "SGD" : rule == Rule::adam ? "Adam" : "RMSprop"; }

inline std::unique_ptr<optim::Optimizer> make_optimizer(Rule rule, std::vector<Tensor> parameters) {
  if (rule == Rule::adam) return std::make_unique<optim::Adam>(std::move(parameters), optim::AdamOptions{.lr = 3e-3});
  if (rule == Rule::rmsprop)
    return std::make_unique<optim::RMSprop>(std::move(parameters),
                                            optim::RMSpropOptions{.lr = 1e-3, .momentum = 0.9, .centered = true});
  return std::make_unique<optim::SGD>(
      std::move(parameters), optim::SGDOptions{.lr = 0.02, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
}

/// A network and the images that it is trained on, of a batch.
struct Network {
  const char* name;
  nn::Sequential (*make)();
  Shape images;
};

/// A small residual network: batch norm, dropout.
inline nn::Sequential residual_net() {
  nn::Sequential net;
  net.push_back(nn::Conv2d(3, 8, 3, {.padding = 1, .bias = false})).push_back(nn::BatchNorm2d(8));
  net.push_back(nn::ReLU()).push_back(examples::BasicBlock(8, 8, 1)).push_back(examples::BasicBlock(8, 16, 2));
  net.push_back(nn::Dropout(0.2));
  net.push_back(examples::GlobalAveragePool()).push_back(nn::Linear(16, 10));
  return net;
}

inline Network small_residual() { return {"Residual", residual_net, {6, 3, 8, 8}}; }

/// A network of ten classes on the default device, from the default generator of seed 1: of any rule, with clipping; in
/// `computed` under autocast.
class NetTraining {
 public:
  NetTraining(const Network& net, Rule rule, DType computed)
      : model((manual_seed(1), net.make())),
        optimizer(make_optimizer(rule, model.parameters())),
        images_(net.images),
        computed_(computed) {}

  /// A batch of random numbers.
  Tensor images() const { return randn(images_); }
  Tensor classes() const { return randint(0, 10, {images_[0]}); }

  /// One step of training; its loss.
  Tensor step(const Tensor& x, const Tensor& y) {
    const Autocast autocast(computed_);
    optimizer->zero_grad();
    Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1.0);
    optimizer->step();
    return loss.detach();
  }

  /// What steps leave: parameters, buffers and gradients.
  std::vector<std::vector<float>> left() const {
    std::vector<std::vector<float>> all;
    for (const auto& [name, x] : model.state_dict()) all.push_back(x.detach().to_vector<float>());
    for (const Tensor& p : model.parameters()) all.push_back(p.grad().to_vector<float>());
    return all;
  }

  nn::Sequential model;
  std::unique_ptr<optim::Optimizer> optimizer;

 private:
  Shape images_;
  DType computed_;
};

/// Captured steps on a device that holds numbers or none.
inline void train_captured(Rule rule, DType computed, Device device) {
  const DefaultDevice here(device);
  NetTraining net(small_residual(), rule, computed);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return net.step(x, y); });
  for (int i = 0; i < 6; ++i) {
    const memory::Step mark;
    net.optimizer->set_lr(i < 5 ? 0.02 : 0.01);
    step(net.images(), net.classes());
  }
}

}  // namespace bytetape::test
