#pragma once
#include <bytetape/bytetape.h>

namespace bytetape::examples {

/// 784-1024-1024-10 with ReLU, on flattened images.
inline nn::Sequential mnist_mlp() {
  nn::Sequential net;
  net.push_back("flatten", nn::Flatten());
  net.push_back("fc1", nn::Linear(784, 1024)).push_back("relu1", nn::ReLU());
  net.push_back("fc2", nn::Linear(1024, 1024)).push_back("relu2", nn::ReLU());
  net.push_back("fc3", nn::Linear(1024, 10));
  return net;
}

/// Two 3x3 convolutions, a pooling and two linear layers, with dropout: 1.2 M parameters.
inline nn::Sequential mnist_cnn() {
  nn::Sequential net;
  net.push_back("conv1", nn::Conv2d(1, 32, 3)).push_back("relu1", nn::ReLU());
  net.push_back("conv2", nn::Conv2d(32, 64, 3)).push_back("relu2", nn::ReLU());
  net.push_back("pool", nn::MaxPool2d(2)).push_back("dropout1", nn::Dropout(0.25)).push_back("flatten", nn::Flatten());
  net.push_back("fc1", nn::Linear(9216, 128)).push_back("relu3", nn::ReLU()).push_back("dropout2", nn::Dropout(0.5));
  net.push_back("fc2", nn::Linear(128, 10));
  return net;
}

}  // namespace bytetape::examples
