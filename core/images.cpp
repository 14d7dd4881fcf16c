#include "bytetape/core/images.h"

#include "bytetape/core/check.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/image_format.h"
#include "bytetape/core/kernels.h"
#include "bytetape/core/memory/scope.h"

namespace bytetape {
namespace {

void check_same_device(const Tensor& x, const char* name, const Tensor& images) {
  check<DeviceError>(x.device() == images.device(), name, " are on another device than the images: ", describe(x),
                     " and ", describe(images));
}

void check_inputs(const Tensor& images, const Tensor& labels, const Tensor& indices, const Tensor& values) {
  check_defined(images, "images");
  for (const auto& [x, name] : {std::pair(&labels, "labels"), {&indices, "indices"}, {&values, "values"}}) {
    check_defined(*x, name);
    check_same_device(*x, name, images);
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

void check_batch(const Tensor& x, const Tensor& values) {
  check_defined(x);
  check(x.rank() == 4, "expected images (n, c, h, w), got ", describe(x));
  check<DTypeError>(x.dtype() == DType::u8 || (is_floating(x.dtype()) && !values.defined()),
                    values.defined() ? "only u8 images are converted, got " : "expected u8 or floating images, got ",
                    describe(x));
  if (!values.defined()) return;
  check_same_device(values, "values", x);
  check<DTypeError>(is_floating(values.dtype()), "expected floating values, got ", describe(values));
  check(values.shape() == Shape{x.size(1), 256}, "expected values (c, 256) for ", describe(x), ", got ",
        describe(values));
}

void check_augmentation(const Augmentation& by, const Tensor& images) {
  const std::int64_t h = images.size(2), w = images.size(3);
  constexpr std::int64_t most = std::int64_t{1} << 29;
  check<ValueError>(by.crop_padding >= 0 && by.crop_padding < most, "expected a crop_padding from 0 to 2^29, got ",
                    by.crop_padding);
  check<ValueError>(by.flip >= 0 && by.flip <= 1, "expected a probability, got flip = ", by.flip);
  check<ValueError>(by.cutout >= 0 && by.cutout < most, "expected a cutout from 0 to 2^29, got ", by.cutout);
  check(h < most && w < most, "expected images of fewer than 2^29 rows and columns, got ", describe(images));
  check(by.crop_padding == 0 || by.padding_mode == PaddingMode::zeros || (by.crop_padding < h && by.crop_padding < w),
        "crop_padding ", by.crop_padding, " that reflects needs larger images than ", describe(images));
}

ConstView if_defined(const Tensor& x) { return x.defined() ? x.read() : ConstView(); }

/// After all that may fail: numbers are drawn, and the kernel runs.
void gather(const Tensor& images, const Tensor& labels, const Tensor& indices, const Tensor& values, const Tensor& x,
            const Tensor& y, const Augmentation& by, Generator& generator) {
  GatherImagesArgs args{images.read(),
                        if_defined(labels),
                        if_defined(indices),
                        if_defined(values),
                        {by, {}},
                        x.write(),
                        y.defined() ? y.write() : View()};
  const Device device = images.device();
  if (by.changes_anything()) args.augmenting.state = generator.take(Augmenting::words_each * images.size(0), device);
  run<&Kernels::gather_images>(device, args);
}

}  // namespace

LabelledImages gather_images(const Tensor& images, const Tensor& labels, const Tensor& indices, const Tensor& values,
                             memory::Role role, const Augmentation& by, Generator& generator) {
  const memory::Op<"gather_images"> op;
  check_inputs(images, labels, indices, values);
  check_augmentation(by, images);
  const Device device = images.device();
  Shape shape = images.shape();
  shape[0] = indices.size(0);
  LabelledImages batch{empty(shape, image_format, values.dtype(), device, role),
                       empty(shape[0], DType::i64, device, role)};
  gather(images, labels, indices, values, batch.x, batch.y, by, generator);
  return batch;
}

Tensor augment_images(const Tensor& x, const Augmentation& by, Generator& generator, const Tensor& values,
                      memory::Role role) {
  const memory::Op<"augment_images"> op;
  check_batch(x, values);
  check_augmentation(by, x);
  Tensor y = values.defined() ? empty(x.shape(), image_format, values.dtype(), x.device(), role)
                              : empty(x.shape(), suggest_memory_format(x), x.dtype(), x.device(), role);
  gather(x, {}, {}, values, y, {}, by, generator);
  return y;
}

}  // namespace bytetape
