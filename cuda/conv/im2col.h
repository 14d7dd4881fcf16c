#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/matmul.h"
#include "bytetape/cuda/conv/conv_sizes.h"
#include "bytetape/cuda/runtime/workspace.h"

namespace bytetape::cuda {

/// A convolution as matrix products over some pixels at a time, in f64 or f32. For convolutions that cuDNN does not
/// support.
///
/// A row of `patches` is the input of one pixel, (groups, kh, kw, channels of a group). It consists of pixels of x for
/// a pixel of y. For the gradient of x, it consists of pixels of gy for a pixel of x. A row of `values` has all
/// channels of a pixel.
struct Im2col {
  DType dtype;                                     // computed type
  std::int64_t pixels, rows;                       // pixels in all, and at a time
  std::int64_t groups, taps, seen, made;           // seen, made: channels of a group in a patch, and in a pixel's value
  std::size_t patches, values, weights, products;  // offsets in the workspace, in bytes
  std::size_t total;
  ConvMap map;

  Im2col(const ConvSizes& s, ConvMap map, WorkspaceCap cap);
  std::int64_t patch() const { return taps * seen; }
  /// Returns values = patches @ weights, or for the gradient of the weight sums[part] = values^T @ patches.
  MatmulArgs product(void* workspace, std::int64_t count, int part, Device device) const;
  /// Returns the view in `weights` of the weight or its gradient, as product() uses it.
  View weight_matrix(void* workspace, int part, Device device) const;
};

// The three maps. `ws` has at least Im2col::total bytes.
void im2col_forward(const Conv2dArgs& args, void* ws);
void im2col_input_grad(const Conv2dInputGradArgs& args, void* ws);
/// Does not compute the bias's gradient.
void im2col_weight_grad(const Conv2dWeightGradArgs& args, void* ws);

}  // namespace bytetape::cuda
