#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "bytetape/core/images/augmentation.h"
#include "bytetape/core/random.h"
#include "bytetape/data/dataset.h"
#include "bytetape/data/position.h"

namespace bytetape::data {

/// Where a ResidentImages lies, and what its batches are made of.
struct ResidentOptions {
  DType dtype = DType::f32;  ///< of the images in a batch: a floating one
  Device device = default_device();
};

/// Images and their labels, or targets of their size, that lie on one device whole, as bytes, under the role `input`: a
/// batch is one kernel there, which gathers, augments and normalises, and nothing moves between the host and the
/// device.
class ResidentImages {
 public:
  /// Images u8 (n, h, w) or (n, c, h, w); labels i64 (n), or targets (n, h, w) or (n, k, h, w) of any dtype, such as
  /// segmentation masks, which crop and flip move with their images. What lies on the device already is shared, not
  /// copied. Throws what normalized_pixels() throws, ShapeError or DTypeError where labels do not fit, DTypeError where
  /// options.dtype is not floating, DeviceError where there is no such device or a meta tensor should go to another.
  ResidentImages(const Tensor& images, const Tensor& labels, const Normalize& normalize,
                 const ResidentOptions& options = {});

  std::int64_t size() const { return images_.size(0); }
  Device device() const { return images_.device(); }
  /// The examples of `indices`, i64 (m) on the device, under the role `input` and the phase `data`: x (m, c, h, w),
  /// channels-last, where images without channels get c = 1, and y (m), or (m, h, w) or (m, k, h, w); changed by
  /// `augment`, each example by numbers of its own, where that says so. Throws what gather_images() throws.
  Batch get(const Tensor& indices, const Augmentation& augment = {}, Generator& generator = default_generator()) const;

 private:
  Tensor images_, labels_, values_;
};

/// How a ResidentLoader goes through its images.
struct ResidentLoaderOptions {
  std::int64_t batch_size = 64;  ///< examples; the last batch of an epoch may have fewer
  bool shuffle = false;          ///< another order each epoch, drawn on the device
  bool drop_last = false;        ///< leave out a last batch that is not full
  std::uint64_t seed = 0;        ///< of the shuffle and of augment
  /// What becomes of an example depends on the seed, the epoch and its number alone, whatever else is in its batch.
  Augmentation augment = {};
};

/// The batches of images that lie on a device, an epoch at a time, as a DataLoader's:
///
///     const ResidentImages images(mnist.images, mnist.labels, mnist_normalize);
///     ResidentLoader loader(images, {.batch_size = 128, .shuffle = true});
///     for (const auto& [x, y] : loader) ...
///
/// The order depends on the seed and the epoch alone, not on the device; it is not a DataLoader's.
class ResidentLoader {
 public:
  class Iterator;

  /// `images` must outlive the loader and its iterators. Throws ValueError unless batch_size >= 1.
  explicit ResidentLoader(const ResidentImages& images, const ResidentLoaderOptions& options = {});
  explicit ResidentLoader(const ResidentImages&& images, const ResidentLoaderOptions& options = {}) = delete;

  /// Batches in an epoch.
  std::int64_t size() const;
  const ResidentLoaderOptions& options() const { return options_; }

  /// Starts the next epoch and takes its first batch. Where that throws, the next call starts the epoch after it.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }
  /// As DataLoader's.
  void set_position(std::int64_t epoch, std::int64_t batch = 0);

 private:
  const ResidentImages* images_;
  ResidentLoaderOptions options_;
  Position next_;
};

/// An input iterator.
class ResidentLoader::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  const Batch& operator*() const { return batch_; }
  const Batch* operator->() const { return &batch_; }
  /// Lets the batch go, then takes the next one.
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.left_ == 0; }

 private:
  friend class ResidentLoader;
  Iterator(const ResidentLoader& loader, Position from);
  void take();

  const ResidentImages* images_;
  Augmentation augment_;
  PhiloxState draws_;  // of the epoch's augmentation
  Tensor order_;
  std::int64_t batch_size_, left_;  // batches, the one at hand among them
  std::int64_t first_;              // its place in the order
  Batch batch_;
};

}  // namespace bytetape::data
