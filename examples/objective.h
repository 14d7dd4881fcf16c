#pragma once
#include <bytetape/bytetape.h>

#include <string>

namespace bytetape::examples {

/// The loss that a network is trained with, and the metric that it is tested with.
struct Objective {
  /// For models that compute their mean loss themselves, because their whole output would be large. The loss is also
  /// the metric, and `loss` and `score` are not called.
  Tensor (*model_loss)(nn::Module& model, const Tensor& inputs, const Tensor& targets) = nullptr;
  Tensor (*loss)(const Tensor& output, const Tensor& inputs, const Tensor& targets) = nullptr;
  /// Returns the sum of the examples' scores over a batch. The metric is the mean score of all examples.
  Tensor (*score)(const Tensor& output, const Tensor& inputs, const Tensor& targets) = nullptr;
  DType score_dtype;
  const char *name, *short_name;                  // of the metric; an empty short_name: not shown in training
  std::string (*text)(double figure);             // formats the metric
  bool (*reaches)(double figure, double option);  // whether the metric reaches the value of --until
};

/// Classification of images. The loss is cross-entropy, the metric is accuracy.
Objective classification();
/// Reconstruction of images by an autoencoder. The loss and the metric are the mean squared error.
Objective reconstruction();

}  // namespace bytetape::examples
