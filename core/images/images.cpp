#include "bytetape/core/images/images.h"

#include "bytetape/core/check.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/images/image_format.h"
#include "bytetape/core/kernels/images.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {
namespace {

void check_same_device(const Tensor& x, const char* name, const Tensor& images) {
  check<DeviceError>(x.device() == images.device(), name, " are on another device than the images: ", describe(x),
                     " and ", describe(images));
}

void check_targets(const Tensor& targets, const Tensor& images) {
  check_defined(targets, "targets");
  check_same_device(targets, "targets", images);
  const Shape &shape = targets.shape(), &wanted = images.shape();
  check((shape.size() == 3 || shape.size() == 4) && shape[0] == wanted[0] && shape[shape.size() - 2] == wanted[2] &&
            shape[shape.size() - 1] == wanted[3],
        "expected targets (n, h, w) or (n, k, h, w) for ", describe(images), ", got ", describe(targets));
}

void check_inputs(const Tensor& images, const Tensor& labels, const Tensor& indices, const Tensor& values) {
  check_defined(images, "images");
  for (const auto& [x, name] : {std::pair(&labels, "labels"), {&indices, "indices"}, {&values, "values"}}) {
    check_defined(*x, name);
    check_same_device(*x, name, images);
  }
  const bool are_targets = labels.rank() > 2;
  check<DTypeError>(images.dtype() == DType::u8 && (are_targets || labels.dtype() == DType::i64) &&
                        indices.dtype() == DType::i64 && is_floating(values.dtype()),
                    "expected images of u8, labels and indices of i64 and floating values, got ", describe(images),
                    ", ", describe(labels), ", ", describe(indices), " and ", describe(values));
  check(images.rank() == 4 && (are_targets || labels.shape() == Shape{images.size(0)}) && indices.rank() == 1 &&
            values.shape() == Shape{images.size(1), 256},
        "expected images (n, c, h, w), labels (n), indices (m) and values (c, 256), got ", describe(images), ", ",
        describe(labels), ", ", describe(indices), " and ", describe(values));
  if (are_targets) check_targets(labels, images);
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

/// Returns an uninitialised result of augment_images().
Tensor empty_batch(const Tensor& x, const Tensor& values, memory::Role role) {
  return values.defined() ? empty(x.shape(), image_format, values.dtype(), x.device(), role)
                          : empty(x.shape(), suggest_memory_format(x), x.dtype(), x.device(), role);
}

ConstView if_defined(const Tensor& x) { return x.defined() ? x.read() : ConstView(); }

/// Returns the augmentation, with the random numbers that it takes from the generator's stream.
Augmenting drawn(const Augmentation& by, const Tensor& images, Generator& generator) {
  if (!by.changes_anything()) return {by, {}};
  return {by, generator.take(Augmenting::words_each * images.size(0), images.device())};
}

/// Returns a view of targets (n, h, w) as (n, 1, h, w).
Tensor with_channels(const Tensor& targets) {
  if (targets.rank() == 4) return targets;
  Shape shape = targets.shape();
  Strides strides = targets.strides();
  shape.insert(1, 1);
  strides.insert(1, 0);
  return targets.alias(shape, strides, targets.storage_offset());
}

/// Returns uninitialised targets of m images.
Tensor empty_targets(const Tensor& targets, std::int64_t m, memory::Role role) {
  Shape shape = targets.shape();
  shape[0] = m;
  if (shape.size() == 3) return empty(shape, targets.dtype(), targets.device(), role);
  return empty(shape, suggest_memory_format(targets), targets.dtype(), targets.device(), role);
}

/// Crops and flips targets into y in the same way as their images.
void move_targets(const Tensor& targets, const Tensor& indices, const Augmenting& augmenting, const Tensor& y) {
  const Augmenting moving{augmenting.by.without_cutout(), augmenting.state};
  run<&ImagesKernels::gather_images>(
      targets.device(),
      GatherImagesArgs{
          with_channels(targets).read(), {}, if_defined(indices), {}, moving, with_channels(y).write(), {}});
}

}  // namespace

LabelledImages gather_images(const Tensor& images, const Tensor& labels, const Tensor& indices, const Tensor& values,
                             memory::Role role, const Augmentation& by, Generator& generator) {
  const memory::Op<"gather_images"> op;
  check_inputs(images, labels, indices, values);
  check_augmentation(by, images);
  const bool are_targets = labels.rank() > 1;
  const Device device = images.device();
  Shape shape = images.shape();
  shape[0] = indices.size(0);
  const LabelledImages batch{
      empty(shape, image_format, values.dtype(), device, role),
      are_targets ? empty_targets(labels, shape[0], role) : empty(shape[0], DType::i64, device, role)};
  GatherImagesArgs args{images.read(),   {}, indices.read(), values.read(), drawn(by, images, generator),
                        batch.x.write(), {}};
  if (!are_targets) {
    args.labels = labels.read();
    args.y = batch.y.write();
  }
  run<&ImagesKernels::gather_images>(device, args);
  if (are_targets) move_targets(labels, indices, args.augmenting, batch.y);
  return batch;
}

LabelledImages augment_images(const Tensor& x, const Tensor& targets, const Augmentation& by, Generator& generator,
                              const Tensor& values, memory::Role role) {
  const memory::Op<"augment_images"> op;
  check_batch(x, values);
  check_targets(targets, x);
  check_augmentation(by, x);
  const Tensor moved = by.moves() ? empty_targets(targets, x.size(0), role) : targets;
  const Tensor y = empty_batch(x, values, role);
  const Augmenting augmenting = drawn(by, x, generator);
  run<&ImagesKernels::gather_images>(x.device(),
                                     GatherImagesArgs{x.read(), {}, {}, if_defined(values), augmenting, y.write(), {}});
  if (by.moves()) move_targets(targets, {}, augmenting, moved);
  return {y, moved};
}

Tensor augment_images(const Tensor& x, const Augmentation& by, Generator& generator, const Tensor& values,
                      memory::Role role) {
  const memory::Op<"augment_images"> op;
  check_batch(x, values);
  check_augmentation(by, x);
  const Tensor y = empty_batch(x, values, role);
  run<&ImagesKernels::gather_images>(
      x.device(), GatherImagesArgs{x.read(), {}, {}, if_defined(values), drawn(by, x, generator), y.write(), {}});
  return y;
}

Tensor augment_targets(const Tensor& targets, const Augmentation& by, Generator& generator, memory::Role role) {
  const memory::Op<"augment_targets"> op;
  check_defined(targets, "targets");
  check(targets.rank() == 3 || targets.rank() == 4, "expected targets (n, h, w) or (n, k, h, w), got ",
        describe(targets));
  const Tensor images = with_channels(targets);
  check_augmentation(by, images);
  const Tensor y = by.moves() ? empty_targets(targets, targets.size(0), role) : targets;
  const Augmenting augmenting = drawn(by, images, generator);
  if (by.moves()) move_targets(targets, {}, augmenting, y);
  return y;
}

}  // namespace bytetape
