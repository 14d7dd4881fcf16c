#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/matmul.h"
#include "bytetape/cuda/conv/conv_sizes.h"
#include "bytetape/cuda/runtime/workspace.h"

namespace bytetape::cuda {

/// A convolution as products of matrices, some pixels at a time, in f64 or f32: for what cuDNN does not take. Each row
/// of `patches` is what one pixel sees, (groups, kh, kw, channels of a group): of x what a pixel of y sees, or for the
/// gradient of x what a pixel of x sees of gy. Each row of `values` is all channels of a pixel.
struct Im2col {
  DType dtype;                                     // computed in
  std::int64_t pixels, rows;                       // in all, and at a time
  std::int64_t groups, taps, seen, made;           // channels of a group in a patch and in a pixel's value
  std::size_t patches, values, weights, products;  // offsets of the workspace's parts
  std::size_t total;
  ConvMap map;

  Im2col(const ConvSizes& s, ConvMap map, WorkspaceCap cap);
  std::int64_t patch() const { return taps * seen; }
  /// values = patches @ weights; or for the gradient of the weight, sums[part] = values^T @ patches.
  MatmulArgs product(void* workspace, std::int64_t count, int part, Device device) const;
  /// The weight or its gradient as product() takes it, among `weights`.
  View weight_matrix(void* workspace, int part, Device device) const;
};

// The three maps. `ws` has Im2col::total bytes.
void im2col_forward(const Conv2dArgs& args, void* ws);
void im2col_input_grad(const Conv2dInputGradArgs& args, void* ws);
/// Without the bias's gradient.
void im2col_weight_grad(const Conv2dWeightGradArgs& args, void* ws);

}  // namespace bytetape::cuda
