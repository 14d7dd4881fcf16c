#pragma once
#include "bytetape/core/images/pixel_map.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// A batch of images: row i of x and of y is example indices[i], augmented by its own numbers. What is no example is a
/// fault (core/device/fault.h).
struct GatherImagesArgs {
  ConstView images;   // (n, c, h, w): u8, or without values any dtype, which x has
  ConstView labels;   // i64 (n), or undefined, as y then is
  ConstView indices;  // i64 (m); undefined: every image in turn
  ConstView values;   // (c, 256), floating: what each u8 pixel of a channel becomes; undefined: what it is
  Augmenting augmenting;
  View x;  // (m, c, h, w), of the dtype of the values where there are any
  View y;  // i64 (m)
};

struct ImagesKernels {
  void (*gather_images)(const GatherImagesArgs& args);
};

}  // namespace bytetape
