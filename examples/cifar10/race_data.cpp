#include "examples/cifar10/race_data.h"

namespace bytetape::examples {
namespace {

data::ResidentImages resident(const Tensor& images, const Tensor& labels, DType dtype) {
  return {images, labels, data::cifar10_normalize, {.dtype = dtype}};
}

}  // namespace

RaceData::RaceData(const Splits& splits, DType dtype)
    : originals_(data::resident_copy(splits.training.x, default_device())),
      both_(repeat(originals_, {2, 1, 1, 1})),
      labels_(repeat(data::resident_copy(splits.training.y, default_device()), {2})),
      training_(resident(both_, labels_, dtype)),
      testing_(resident(splits.testing.x, splits.testing.y, dtype)) {}

void RaceData::draw_flips() {
  const std::int64_t n = training_size();
  const Tensor is_flipped = view(rand({n}) < 0.5, {n, 1, 1, 1});
  const Tensor mirrored = flip(originals_, {3});
  copy_(narrow(both_, 0, 0, n), where(is_flipped, mirrored, originals_));
  copy_(narrow(both_, 0, n, n), where(is_flipped, originals_, mirrored));
}

Tensor RaceData::draw_order(int epoch) const {
  const Tensor order = randperm(training_size());
  return epoch % 2 == 0 ? order : order + training_size();
}

data::Batch RaceData::training_batch(const Tensor& indices, std::int64_t size) const {
  data::Batch batch = training_.get(indices, {.crop_padding = 2, .padding_mode = PaddingMode::reflect});
  const std::int64_t cut = (race_image_size - size) / 2;
  if (cut > 0) batch.x = channels_last(narrow(narrow(batch.x, 2, cut, size), 3, cut, size));
  return batch;
}

Tensor RaceData::first_images(std::int64_t n) const {
  return resident(narrow(originals_, 0, 0, n), narrow(labels_, 0, 0, n), DType::f32).get(arange(n, DType::i64)).x;
}

}  // namespace bytetape::examples
