#pragma once
#include <bytetape/bytetape.h>

#include <cmath>
#include <vector>

#include "examples/cifar10/race_eigh.h"

namespace bytetape::examples {

/// Returns the second moments of all 2x2 patches, (4 c, 4 c), with (channel, row, column) as one index. The product is
/// batched by image, so that a GPU computes many small ones at once.
inline std::vector<double> second_moments(const Tensor& images) {
  const std::int64_t n = images.size(0), c = images.size(1), h = images.size(2) - 1, w = images.size(3) - 1;
  std::vector<Tensor> shifted;
  for (std::int64_t channel = 0; channel < c; ++channel)
    for (std::int64_t y = 0; y < 2; ++y)
      for (std::int64_t x = 0; x < 2; ++x)
        shifted.push_back(contiguous(narrow(narrow(narrow(images, 1, channel, 1), 2, y, h), 3, x, w)));
  const Tensor patches = reshape(contiguous(cat(shifted, 1)), {n, 4 * c, h * w});
  return (mean(matmul(patches, transpose(patches, 1, 2)), {0}) / static_cast<double>(h * w)).to_vector<double>();
}

/// Returns filters (8 c, c, 2, 2), f32 on the images' device, whose outputs for 2x2 patches of images (n, c, h, w),
/// f32, are uncorrelated and of about unit variance: the eigenvectors of the patches' second moments, divided by
/// sqrt(eigenvalue + 5e-4), and their negatives (Page, "How to train your ResNet 8: bag of tricks", 2019; Jordan, "94%
/// on CIFAR-10 in 3.29 seconds on a single GPU", 2024). Waits for the device.
inline Tensor whitening_filters(const Tensor& images) {
  const NoGrad no_grad;
  const std::int64_t c = images.size(1);
  const Eigh of_patches = eigh(second_moments(images), static_cast<std::size_t>(4 * c));
  constexpr double eps = 5e-4;  // limits the gain of noise
  std::vector<float> filters;
  for (const double sign : {1.0, -1.0})
    for (std::size_t i = 0; i < of_patches.values.size(); ++i)
      for (const double v : of_patches.vectors[i])
        filters.push_back(static_cast<float>(sign * v / std::sqrt(of_patches.values[i] + eps)));
  return from_vector(filters, {8 * c, c, 2, 2}, images.device());
}

}  // namespace bytetape::examples
