#pragma once
#include "bytetape/core/images/augmentation.h"
#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Images and their labels, or target images of the same size.
struct LabelledImages {
  Tensor x, y;
};

/// Gathers a batch from a data set on a device, augments and converts it, in one launch.
/// - `images`: u8 (n, c, h, w). `labels`: i64 (n). `indices`: i64 (m), the examples of the batch.
/// - `values`: (c, 256), floating-point. A pixel of value v in channel c becomes values[c][v].
/// - `by`: augmentation. Each example has its own 8 of the 8 n words taken from `generator`, so its changes depend on
///   neither batch nor device. Crops see pixels of value 0 outside the image, converted by `values`. Cutout writes 0 to
///   x.
///
/// Returns x (m, c, h, w), channels-last, of the dtype of `values`, and y (m). They get no gradient.
/// labels may also be targets (n, h, w) or (n, k, h, w) of any dtype, such as segmentation masks. y then has x's crop
/// and flip, no cutout, and 0 outside the image. That takes one more launch.
///
/// Throws DTypeError, ShapeError or DeviceError if the inputs do not fit.
/// Throws ValueError or ShapeError if `by` does not fit.
/// Throws ShapeError if an index is no example: at once on the CPU, else at the host's next read (core/device/fault.h).
LabelledImages gather_images(const Tensor& images, const Tensor& labels, const Tensor& indices, const Tensor& values,
                             memory::Role role = memory::Role::temporary, const Augmentation& by = {},
                             Generator& generator = default_generator());

/// Augments a batch (n, c, h, w), u8 or floating-point, in one launch, as gather_images() does.
/// Image i uses words 8 i to 8 i + 7 of those taken from `generator`. The result has x's dtype and memory format. With
/// `values` (c, 256), which convert u8 pixels, it has their dtype and is channels-last. Throws as gather_images().
Tensor augment_images(const Tensor& x, const Augmentation& by, Generator& generator = default_generator(),
                      const Tensor& values = {}, memory::Role role = memory::Role::temporary);

/// Augments a batch with targets (n, h, w) or (n, k, h, w) of the images' size and any dtype, as gather_images() does.
/// y is `targets` itself if `by` moves no pixels.
LabelledImages augment_images(const Tensor& x, const Tensor& targets, const Augmentation& by,
                              Generator& generator = default_generator(), const Tensor& values = {},
                              memory::Role role = memory::Role::temporary);

/// Returns targets (n, h, w) or (n, k, h, w) of any dtype with the crop and flip that augment_images() gives n images
/// of their size, if `generator` is in the same state. Takes as many random numbers. The result is `targets` itself if
/// `by` moves no pixels. Throws as augment_images().
Tensor augment_targets(const Tensor& targets, const Augmentation& by, Generator& generator = default_generator(),
                       memory::Role role = memory::Role::temporary);

}  // namespace bytetape
