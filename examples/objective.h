#pragma once
#include <bytetape/bytetape.h>

#include <string>

namespace bytetape::examples {

/// What a network is trained for, and the figure that says how well it does.
struct Objective {
  Tensor (*loss)(const Tensor& output, const Tensor& images, const Tensor& labels);
  /// Sums over a batch what each image counts for; the figure is the mean over all images.
  Tensor (*score)(const Tensor& output, const Tensor& images, const Tensor& labels);
  DType score_dtype;
  const char *name, *short_name;                  // of the figure
  std::string (*text)(double figure);             // as it is shown
  bool (*reaches)(double figure, double option);  // what --until says
};

/// The class of an image: cross-entropy; the figure is the part of the images that are told right.
Objective classification();
/// The image itself, by way of few numbers: mean squared error, which is the figure too.
Objective reconstruction();

}  // namespace bytetape::examples
