#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "bytetape/core/images/augmentation.h"
#include "bytetape/core/random.h"
#include "bytetape/data/dataset.h"
#include "bytetape/data/position.h"

namespace bytetape::data {

/// A dataset that is kept on one device, with the role `input`. Batches are made there, so nothing is copied between
/// host and device.
class ResidentDataset {
 public:
  virtual ~ResidentDataset() = default;
  /// Returns the number of examples.
  virtual std::int64_t size() const = 0;
  virtual Device device() const = 0;
  /// Returns the examples `indices`, i64 (m) on the device, augmented by `augment`. Both tensors have the role `input`
  /// and the phase `data`.
  virtual Batch get(const Tensor& indices, const Augmentation& augment = {},
                    Generator& generator = default_generator()) const = 0;
};

/// Returns x itself if it is on `device`, else a copy with the role `input`.
/// Throws DeviceError if x is a meta tensor and `device` is not a meta device.
Tensor resident_copy(const Tensor& x, Device device);

/// Options of ResidentImages.
struct ResidentOptions {
  DType dtype = DType::f32;  ///< dtype of the images in a batch; floating
  Device device = default_device();
};

/// A dataset of images, kept as bytes. A batch is one kernel, which gathers, augments and normalises. Labels may be
/// targets of the images' size.
class ResidentImages final : public ResidentDataset {
 public:
  /// Copies the data to options.device. Data that is already there is shared.
  /// `images` is u8 (n, h, w) or (n, c, h, w). `labels` is i64 (n), or targets (n, h, w) or (n, k, h, w) of any dtype,
  /// such as segmentation masks, which are cropped and flipped with their images.
  /// Throws what normalized_pixels() throws.
  /// Throws ShapeError or DTypeError if `labels` does not fit, and DTypeError if options.dtype is not floating.
  /// Throws DeviceError if the device does not exist, or a meta tensor would go to another device.
  ResidentImages(const Tensor& images, const Tensor& labels, const Normalize& normalize,
                 const ResidentOptions& options = {});

  std::int64_t size() const override { return images_.size(0); }
  Device device() const override { return images_.device(); }
  /// x is (m, c, h, w), channels-last; images without a channel dim get c = 1. y is (m), (m, h, w) or (m, k, h, w).
  /// Each example is augmented with its own random numbers.
  /// Throws what gather_images() throws.
  Batch get(const Tensor& indices, const Augmentation& augment = {},
            Generator& generator = default_generator()) const override;

 private:
  Tensor images_, labels_, values_;
};

/// Options of a ResidentLoader.
struct ResidentLoaderOptions {
  std::int64_t batch_size = 64;  ///< examples; the last batch of an epoch may have fewer
  bool shuffle = false;          ///< a new random order each epoch, drawn on the device
  bool drop_last = false;        ///< drop the last batch if it is not full
  std::uint64_t seed = 0;        ///< seed of shuffle and augment
  /// The batches of an epoch go to the ranks of a dist::Group in turn, so that each step uses world_size batches. More
  /// than one rank needs drop_last, because all ranks must take the same number of full batches.
  int rank = 0, world_size = 1;
  /// Augments the images. The result depends only on the seed, the epoch and the example's index in the dataset.
  Augmentation augment = {};
};

/// Iterates over the batches of a ResidentDataset, one epoch at a time, with the interface of DataLoader.
///
///     const ResidentImages images(mnist.images, mnist.labels, mnist_normalize);
///     ResidentLoader loader(images, {.batch_size = 128, .shuffle = true});
///     for (const auto& [x, y] : loader) ...
///
/// The order depends only on the seed and the epoch, not on the device. It differs from a DataLoader's order.
class ResidentLoader {
 public:
  class Iterator;

  /// `dataset` must outlive the loader and its iterators.
  /// Throws ValueError unless batch_size >= 1 and `rank` is below `world_size`, or if world_size is above 1 without
  /// drop_last.
  explicit ResidentLoader(const ResidentDataset& dataset, const ResidentLoaderOptions& options = {});
  explicit ResidentLoader(const ResidentDataset&& dataset, const ResidentLoaderOptions& options = {}) = delete;

  /// Returns the number of batches in an epoch, of this rank.
  std::int64_t size() const;
  const ResidentLoaderOptions& options() const { return options_; }

  /// Starts the next epoch and makes its first batch. If that throws, the next call starts the epoch after it.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }
  /// Sets the position of the next begin(), as DataLoader::set_position() does.
  void set_position(std::int64_t epoch, std::int64_t batch = 0);

 private:
  const ResidentDataset* dataset_;
  ResidentLoaderOptions options_;
  Position next_;
};

/// Input iterator over the batches of an epoch.
class ResidentLoader::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  const Batch& operator*() const { return batch_; }
  const Batch* operator->() const { return &batch_; }
  /// Releases the batch, then makes the next one.
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.left_ == 0; }

 private:
  friend class ResidentLoader;
  Iterator(const ResidentLoader& loader, Position from);
  void take();

  const ResidentDataset* dataset_;
  Augmentation augment_;
  PhiloxState draws_;  // random numbers of the epoch's augmentation
  Tensor order_;
  std::int64_t batch_size_, left_;  // left_: batches left, including the current one
  std::int64_t first_;              // index in the order of the batch's first example
  std::int64_t step_;               // from there to that of the next batch
  Batch batch_;
};

}  // namespace bytetape::data
