#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// A batch of a data set: row i of x and of y is example indices[i]. What is no example is a fault (core/fault.h).
struct GatherImagesArgs {
  ConstView images;   // u8 (n, c, h, w)
  ConstView labels;   // i64 (n)
  ConstView indices;  // i64 (m)
  ConstView values;   // (c, 256), floating: what each pixel of a channel becomes
  View x;             // (m, c, h, w), of the dtype of the values
  View y;             // i64 (m)
};

struct ImagesKernels {
  void (*gather_images)(const GatherImagesArgs& args);
};

}  // namespace bytetape
