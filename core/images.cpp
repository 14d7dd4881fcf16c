#include "bytetape/core/images.h"

#include "bytetape/core/check.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/image_format.h"

namespace bytetape {
namespace {

void check_inputs(const Tensor& images, const Tensor& labels, const Tensor& indices, const Tensor& values) {
  check_defined(images, "images");
  for (const auto& [x, name] : {std::pair(&labels, "labels"), {&indices, "indices"}, {&values, "values"}}) {
    check_defined(*x, name);
    check<DeviceError>(x->device() == images.device(), name, " are on another device than the images: ", describe(*x),
                       " and ", describe(images));
  }
  check<DTypeError>(images.dtype() == DType::u8 && labels.dtype() == DType::i64 && indices.dtype() == DType::i64 &&
                        is_floating(values.dtype()),
                    "expected images of u8, labels and indices of i64 and floating values, got ", describe(images),
                    ", ", describe(labels), ", ", describe(indices), " and ", describe(values));
  check(images.rank() == 4 && labels.rank() == 1 && labels.size(0) == images.size(0) && indices.rank() == 1 &&
            values.shape() == Shape{images.size(1), 256},
        "expected images (n, c, h, w), labels (n), indices (m) and values (c, 256), got ", describe(images), ", ",
        describe(labels), ", ", describe(indices), " and ", describe(values));
}

}  // namespace

LabelledImages gather_images(const Tensor& images, const Tensor& labels, const Tensor& indices, const Tensor& values,
                             memory::Role role) {
  const memory::Op<"gather_images"> op;
  check_inputs(images, labels, indices, values);
  const Device device = images.device();
  Shape shape = images.shape();
  shape[0] = indices.size(0);
  LabelledImages batch{empty(shape, image_format, values.dtype(), device, role),
                       empty(shape[0], DType::i64, device, role)};
  run<&Kernels::gather_images>(device, GatherImagesArgs{images.read(), labels.read(), indices.read(), values.read(),
                                                        batch.x.write(), batch.y.write()});
  return batch;
}

}  // namespace bytetape
