#pragma once
#include "bytetape/core/images/pixel_map.h"
#include "bytetape/core/kernels/work.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// A batch of images. Row i of x and y is example indices[i], augmented with its own random numbers. An index that is
/// no example is a fault (core/device/fault.h).
struct GatherImagesArgs {
  ConstView images;   // (n, c, h, w): u8; without values any dtype, that of x
  ConstView labels;   // i64 (n); undefined together with y
  ConstView indices;  // i64 (m); undefined: all images in order
  ConstView values;   // (c, 256), floating-point: the result of each u8 pixel per channel; undefined: unchanged
  Augmenting augmenting;
  View x;  // (m, c, h, w), of the dtype of values if defined
  View y;  // i64 (m)

  /// Reads a pixel for each pixel of x, and a label for each of y.
  std::uint64_t moved_bytes() const {
    return bytetape::moved_bytes(indices) + bytetape::moved_bytes(values) + bytetape::moved_bytes(x) +
           static_cast<std::uint64_t>(x.numel()) * size_of(images.dtype) + 2 * bytetape::moved_bytes(y);
  }
};

struct ImagesKernels {
  void (*gather_images)(const GatherImagesArgs& args);
};

}  // namespace bytetape
