#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Images and their labels.
struct LabelledImages {
  Tensor x, y;
};

/// A batch of a data set that lies on a device, gathered and converted in one launch: image i is x (m, c, h, w) with
/// values[c][v] for pixel v of channel c of example indices[i], channels-last in memory as results on images are, and
/// of the dtype of `values`; its label is y (m). images is u8 (n, c, h, w), labels i64 (n), indices i64 (m), values
/// (c, 256) and floating; none gets a gradient. Throws DTypeError, ShapeError or DeviceError where they do not fit,
/// and ShapeError where an index is no example: at once on the CPU, else at the next read by the host (core/fault.h).
LabelledImages gather_images(const Tensor& images, const Tensor& labels, const Tensor& indices, const Tensor& values,
                             memory::Role role = memory::Role::temporary);

}  // namespace bytetape
