#pragma once
#include <bytetape/bytetape.h>

#include <memory>
#include <string>
#include <vector>

namespace bytetape::test {

/// What a small training run needs: a model of five classes, an optimizer, the shape of a batch.
struct Net {
  nn::Sequential model;
  std::unique_ptr<optim::Optimizer> optimizer;
  Shape batch;
};

/// "mlp", or "conv": with batch norm, pooling and dropout. New, on the default device, from the default generator.
inline Net make_net(const std::string& name, DType dtype) {
  Net net;
  if (name == "mlp") {
    net.batch = {19, 23};
    net.model.push_back("fc1", nn::Linear(23, 65)).push_back("relu1", nn::ReLU());
    net.model.push_back("fc2", nn::Linear(65, 33)).push_back("tanh", nn::Tanh()).push_back("fc3", nn::Linear(33, 5));
    net.model.to(dtype);
    net.optimizer = std::make_unique<optim::Adam>(net.model.parameters(), optim::AdamOptions{.lr = 3e-3});
  } else {
    net.batch = {9, 3, 14, 14};
    net.model.push_back("conv1", nn::Conv2d(3, 8, 3, {.padding = 1})).push_back("norm", nn::BatchNorm2d(8));
    net.model.push_back("relu1", nn::ReLU()).push_back("pool", nn::MaxPool2d(2));
    net.model.push_back("conv2", nn::Conv2d(8, 12, 3)).push_back("relu2", nn::ReLU());
    net.model.push_back("dropout", nn::Dropout(0.3)).push_back("flatten", nn::Flatten());
    net.model.push_back("fc", nn::Linear(12 * 5 * 5, 5));
    net.model.to(dtype);
    net.optimizer = std::make_unique<optim::SGD>(net.model.parameters(),
                                                 optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
  }
  return net;
}

/// One step on a batch of random numbers; its loss.
inline Tensor train_step(Net& net, DType dtype) {
  const Device device = default_device();
  const memory::Step mark(device);
  Generator& g = default_generator();
  const Tensor x = rand(net.batch, dtype, device, g, memory::Role::input);
  const Tensor y = randint(0, 5, net.batch[0], DType::i64, device, g, memory::Role::input);
  net.optimizer->zero_grad();
  Tensor loss = cross_entropy(net.model(x), y);
  loss.backward();
  net.optimizer->step();
  return loss;
}

}  // namespace bytetape::test
