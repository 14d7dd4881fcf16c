#pragma once
#include "bytetape/core/images/pixel_map.h"
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
};

struct ImagesKernels {
  void (*gather_images)(const GatherImagesArgs& args);
};

}  // namespace bytetape
