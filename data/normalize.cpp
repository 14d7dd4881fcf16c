#include "bytetape/data/normalize.h"

#include "bytetape/core/device/transfer.h"
#include "bytetape/core/factories.h"

namespace bytetape::data {

std::vector<double> normalized_pixels(const Tensor& images, const Normalize& by) {
  check<DTypeError>(images.dtype() == DType::u8, "expected u8 images to normalise, got ", describe(images));
  check(images.rank() == 3 || images.rank() == 4, "expected images (n, h, w) or (n, c, h, w) to normalise, got ",
        describe(images));
  const std::int64_t channels = images.rank() == 4 ? images.size(1) : 1;
  check(by.mean.fits(channels) && by.std.fits(channels), "mean of ", by.mean.size(), " and std of ", by.std.size(),
        " channels do not fit ", describe(images));
  std::vector<double> values;
  for (std::int64_t c = 0; c < channels; ++c) {
    check<ValueError>(by.std[c] > 0, "expected std > 0, got ", by.std[c]);
    for (int v = 0; v < 256; ++v) values.push_back(by(v, c));
  }
  return values;
}

Tensor pixel_table(const std::vector<double>& pixels, DType dtype, Device device) {
  const Shape shape{static_cast<std::int64_t>(pixels.size() / 256), 256};
  const Tensor exact = from_vector(pixels, shape, device, memory::Role::input);
  if (dtype == exact.dtype()) return exact;
  Tensor table = empty(shape, dtype, device, memory::Role::input);
  copy_across(exact, table);
  return table;
}

Tensor with_channels(const Tensor& images) {
  if (images.rank() == 4) return images;
  Shape shape = images.shape();
  Strides strides = images.strides();
  shape.insert(1, 1);
  strides.insert(1, 0);
  return images.alias(shape, strides, images.storage_offset());
}

Tensor without_channels(const Tensor& images) {
  Shape shape = images.shape();
  Strides strides = images.strides();
  shape.erase(1);
  strides.erase(1);
  return images.alias(shape, strides, images.storage_offset());
}

}  // namespace bytetape::data
