#include "bytetape/data/resident.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "bytetape/core/check.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/images/images.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/data/seeds.h"

namespace bytetape::data {
namespace {

using memory::PhaseScope;
using memory::Role;

Tensor make_order(std::int64_t n, const ResidentLoaderOptions& options, std::uint64_t epoch, Device device) {
  if (!options.shuffle) return arange(n, DType::i64, device, Role::input);
  Generator generator;
  generator.set_state(shuffle_state(options.seed, epoch));
  return randperm(n, device, generator, Role::input);
}

}  // namespace

Tensor resident_copy(const Tensor& x, Device device) {
  if (x.device() == device) return x;
  check<DeviceError>(!x.device().is_meta || device.is_meta, describe(x), " holds no data");
  Tensor y = empty(x.shape(), x.dtype(), device, Role::input);
  copy_across(x, y);
  return y;
}

ResidentImages::ResidentImages(const Tensor& images, const Tensor& labels, const Normalize& normalize,
                               const ResidentOptions& options) {
  const memory::Op<"ResidentImages"> op;
  const PhaseScope phase(memory::Phase::data);
  check_defined(images, "images");
  check_defined(labels, "labels");
  const std::vector<double> values = normalized_pixels(images, normalize);
  const bool are_targets = labels.rank() > 2;
  check<DTypeError>(are_targets || labels.dtype() == DType::i64, "expected i64 labels, got ", describe(labels));
  check(are_targets || labels.shape() == Shape{images.size(0)}, "expected a label for each image, got ",
        describe(images), " and ", describe(labels));
  check(!are_targets || (labels.rank() <= 4 && labels.size(0) == images.size(0) && labels.size(-2) == images.size(-2) &&
                         labels.size(-1) == images.size(-1)),
        "expected a target (h, w) or (k, h, w) of its size for each image, got ", describe(images), " and ",
        describe(labels));
  check<DTypeError>(is_floating(options.dtype), "expected a floating dtype for normalised images, got ", options.dtype);
  images_ = with_channels(resident_copy(images, options.device));
  labels_ = resident_copy(labels, options.device);
  values_ = pixel_table(values, options.dtype, options.device);
}

Batch ResidentImages::get(const Tensor& indices, const Augmentation& augment, Generator& generator) const {
  const PhaseScope phase(memory::Phase::data);
  LabelledImages batch = gather_images(images_, labels_, indices, values_, Role::input, augment, generator);
  return {std::move(batch.x), std::move(batch.y)};
}

ResidentLoader::ResidentLoader(const ResidentDataset& dataset, const ResidentLoaderOptions& options)
    : dataset_(&dataset), options_(options) {
  const memory::Op<"ResidentLoader"> op;
  check<ValueError>(options.batch_size >= 1, "expected batch_size >= 1, got ", options.batch_size);
  check<ValueError>(options.rank >= 0 && options.rank < options.world_size,
                    "expected a rank below the world size, got ", "rank ", options.rank, " of ", options.world_size);
  check<ValueError>(options.world_size == 1 || options.drop_last, "several ranks need drop_last");
  check<ValueError>(options.batch_size <= std::numeric_limits<std::int64_t>::max() / options.world_size, "batch_size ",
                    options.batch_size, " is too large for ", options.world_size, " ranks");
}

std::int64_t ResidentLoader::size() const {
  const std::int64_t n = dataset_->size(), b = options_.batch_size * options_.world_size;
  return n / b + (n % b && !options_.drop_last ? 1 : 0);
}

ResidentLoader::Iterator ResidentLoader::begin() {
  const PhaseScope phase(memory::Phase::data);
  return {*this, next_.take()};
}

void ResidentLoader::set_position(std::int64_t epoch, std::int64_t batch) {
  const memory::Op<"ResidentLoader"> op;
  next_ = Position::in(epoch, batch, size());
}

ResidentLoader::Iterator::Iterator(const ResidentLoader& loader, Position from)
    : dataset_(loader.dataset_),
      augment_(loader.options_.augment),
      draws_(augmentation_state(loader.options_.seed, from.epoch)),
      order_(make_order(dataset_->size(), loader.options_, from.epoch, dataset_->device())),
      batch_size_(loader.options_.batch_size),
      left_(loader.size() - from.batch),
      first_((from.batch * loader.options_.world_size + loader.options_.rank) * batch_size_),
      step_(loader.options_.world_size * batch_size_) {
  take();
}

void ResidentLoader::Iterator::take() {
  if (left_ == 0) return;
  const std::int64_t n = std::min(batch_size_, order_.size(0) - first_);
  const Tensor indices = order_.alias(n, {1}, order_.storage_offset() + first_);
  if (!augment_.changes_anything()) {
    batch_ = dataset_->get(indices);
    return;
  }
  Generator generator;
  generator.set_state(draws_);
  batch_ = dataset_->get(indices, augment_, generator);
}

ResidentLoader::Iterator& ResidentLoader::Iterator::operator++() {
  batch_ = {};
  --left_;
  first_ += step_;
  take();
  return *this;
}

}  // namespace bytetape::data
