#pragma once
#include <bytetape/bytetape.h>

namespace bytetape::examples {

/// 784-1024-1024-10 with ReLU, on flattened images.
inline nn::Sequential mnist_mlp() {
  return nn::Sequential(nn::Flatten(), nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(),
                        nn::Linear(1024, 10));
}

/// Two 3x3 convolutions, a pooling and two linear layers, with dropout: 1.2 M parameters.
inline nn::Sequential mnist_cnn() {
  return nn::Sequential(nn::Conv2d(1, 32, 3), nn::ReLU(), nn::Conv2d(32, 64, 3), nn::ReLU(), nn::MaxPool2d(2),
                        nn::Dropout(0.25), nn::Flatten(), nn::Linear(9216, 128), nn::ReLU(), nn::Dropout(0.5),
                        nn::Linear(128, 10));
}

}  // namespace bytetape::examples
