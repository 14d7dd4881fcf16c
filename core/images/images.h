#pragma once
#include "bytetape/core/images/augmentation.h"
#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Images and their labels, or their targets that are images of the same size.
struct LabelledImages {
  Tensor x, y;
};

/// A batch of a data set that lies on a device, gathered, augmented and converted in one launch: image i is x (m, c, h,
/// w) with values[c][v] for pixel v of channel c of example indices[i], channels-last in memory as results on images
/// are, and of the dtype of `values`; its label is y (m). images is u8 (n, c, h, w), labels i64 (n), indices i64 (m),
/// values (c, 256) and floating; none gets a gradient.
///
/// Instead of labels there may be targets (n, h, w) or (n, k, h, w) of any dtype, such as segmentation masks: y has the
/// same crop and flip as x, no cutout, and 0 outside the image. That is one launch more.
///
/// Where `by` changes anything, every example has its own 8 words of the 8 n that are taken from `generator`, so that
/// it is changed in the same way in any batch and on any device. Outside the image a crop finds pixels 0, which
/// `values` converts as others; what cutout takes is 0 in x.
///
/// Throws DTypeError, ShapeError or DeviceError where inputs do not fit, ValueError or ShapeError where `by` does not,
/// and ShapeError where an index is no example: at once on the CPU, else at the next read by the host
/// (core/device/fault.h).
LabelledImages gather_images(const Tensor& images, const Tensor& labels, const Tensor& indices, const Tensor& values,
                             memory::Role role = memory::Role::temporary, const Augmentation& by = {},
                             Generator& generator = default_generator());

/// A batch (n, c, h, w), u8 or floating, augmented in one launch as gather_images() does it: image i by words 8 i to
/// 8 i + 7 of those that are taken from `generator`. The result has the dtype and the memory format of x; or with
/// `values` (c, 256), which convert u8 pixels, theirs, channels-last. Throws what gather_images() throws.
Tensor augment_images(const Tensor& x, const Augmentation& by, Generator& generator = default_generator(),
                      const Tensor& values = {}, memory::Role role = memory::Role::temporary);

/// The same with targets (n, h, w) or (n, k, h, w) of the images' size, of any dtype, which move with their images as
/// in gather_images(). Where `by` moves nothing, y is `targets` itself.
LabelledImages augment_images(const Tensor& x, const Tensor& targets, const Augmentation& by,
                              Generator& generator = default_generator(), const Tensor& values = {},
                              memory::Role role = memory::Role::temporary);

}  // namespace bytetape
